"""Traces of PyTorch's profiler: the same tables, the same report; bad ones are one line."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import kineto_trace
import polars as pl
import pytest

from unstall.errors import NotAProfile, ProfileUnreadable
from unstall.load import load
from unstall.load._kineto import decode
from unstall.model import Profile
from unstall.pipeline import report_of
from unstall.testing import TraceBuilder, ms, us

GEMM = "void (anonymous namespace)::gemm<float, 4>(float const*, int)"


def training(steps: int = 6) -> TraceBuilder:
    """20 ms of loading on the main thread, a pageable copy, two kernels, an operator around each, a wait."""
    t = TraceBuilder()

    def body(b: TraceBuilder, i: int, at: int) -> None:
        b.range(f"ProfilerStep#{i}", at, at + ms(25))
        b.range("data_load", at + us(10), at + ms(20))
        b.range("aten::copy_", at + ms(20), at + ms(20) + us(40), domain="torch.ops")
        b.copy("HtoD", at + ms(20) + 7, us(30), bytes=1 << 20)
        b.range("aten::mm", at + ms(21), at + ms(21) + us(20), domain="torch.ops")
        b.launch(GEMM, at + ms(21) + 1, us(9), kernel_dur=ms(1) + 1, graph_node=None)
        b.launch("elementwise_kernel", at + ms(21) + us(30), us(9), kernel_start=at + ms(22) + us(30))
        b.memset(at + ms(23), bytes=512)
        b.sync("stream", at + ms(24), at + ms(24) + us(200))

    t.steps(steps, ms(26), body, start=123)
    return t


@pytest.fixture
def nsys() -> Profile:
    return training().profile()


def same(table: str, ours: Profile, theirs: Profile, *, drop: tuple[str, ...] = ()) -> None:
    a, b = ours.table(table), theirs.table(table)
    assert a is not None and b is not None
    columns = [c for c in b.columns if c not in drop]
    kept = [f.select(pl.col(c).cast(pl.String) if f[c].dtype == pl.Categorical else c for c in columns) for f in (a, b)]
    order = ["start", "end", "name" if "name" in columns else "end"]
    left, right = (f.sort(order) for f in kept)
    assert left.equals(right), f"{table}: {left} {right}"


def text(tmp_path: Path, content: str | bytes, name: str = "trace.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def document(events: list[dict[str, Any]], **head: Any) -> str:
    return json.dumps({"schemaVersion": 1, "deviceProperties": [], **head, "traceEvents": events})


def event(cat: str = "cpu_op", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": "aten::mm", "pid": 7, "tid": 7, "ts": 10.5, "dur": 2.25, "args": {}, **more}


# ---- the same tables -------------------------------------------------------------------------------------------------


def test_byte_order_mark(nsys: Profile, tmp_path: Path) -> None:
    plain = kineto_trace.write(nsys, tmp_path / "t.json")
    marked = text(tmp_path, b"\xef\xbb\xbf" + plain.read_bytes(), "marked.json")
    same("kernels", load(marked), load(plain))


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "rank0.pt.trace.json.gz"])
def test_every_table_to_the_nanosecond(tmp_path: Path, nsys: Profile, name: str) -> None:
    shift = 123  # a capture begins with its first event
    nsys = Profile(**{t: _earlier(nsys.table(t), shift) for t in nsys.present()}, meta=nsys.meta)  # type: ignore[arg-type]
    got = load(kineto_trace.write(training().profile(), tmp_path / name))
    same("kernels", got, nsys, drop=("short_name",))
    same("copies", got, nsys)
    same("memsets", got, nsys)
    same("syncs", got, nsys)
    same("ranges", got, nsys)
    same("api", got, Profile(api=_unversioned(nsys)), drop=("result", "callchain"))
    assert got.meta.producer == "kineto" and got.meta.host == "gpu-1" and got.meta.schema_version == "1"
    assert got.meta.utc_epoch_ns == kineto_trace.BASE_NS + kineto_trace.LATER_NS + shift
    assert got.kernels is not None and got.kernels["short_name"].cast(pl.String).unique().sort().to_list() == [
        "elementwise_kernel", "gemm",
    ]  # fmt: skip


def _earlier(frame: pl.DataFrame | None, ns: int) -> pl.DataFrame | None:
    columns = [] if frame is None else [c for c in ("start", "end", "time") if c in frame.columns]
    return None if frame is None else frame.with_columns(pl.col(c) - ns for c in columns)


def _unversioned(profile: Profile) -> pl.DataFrame:
    assert profile.api is not None
    return profile.api.with_columns(pl.col("name").cast(pl.String).str.replace(r"_v\d+$", ""))


def test_the_report_is_that_of_nsys(tmp_path: Path, nsys: Profile) -> None:
    a = report_of(training().write(tmp_path / "a.sqlite"))
    b = report_of(kineto_trace.write(nsys, tmp_path / "b.json", distributedInfo={"backend": "nccl", "rank": 3}))
    assert [(s.source, s.count, s.samples_ns) for s in b.steps] == [(s.source, s.count, s.samples_ns) for s in a.steps]
    assert a.steps and a.steps[0].source == "range:ProfilerStep#*"
    assert b.kernels == a.kernels and b.copies == a.copies and b.breakdown == a.breakdown
    assert [f.code for f in b.findings] == [f.code for f in a.findings] and b.findings[0].code == "host-data-loading"
    assert b.profile.producer == "kineto" and b.profile.rank == 3
    assert [g.name for g in b.profile.gpus] == ["NVIDIA H200"]


def test_operators_are_a_librarys_and_get_their_device_time(tmp_path: Path, nsys: Profile) -> None:
    rows = {r.name: r for r in report_of(kineto_trace.write(nsys, tmp_path / "t.json")).ranges or []}
    assert rows["aten::mm"].library and rows["aten::mm"].gpu_ns == 6 * (ms(1) + 1)
    assert not rows["data_load"].library and rows["ProfilerStep#*"].wrapper


def test_what_kineto_never_tells_is_not_checked(tmp_path: Path, nsys: Profile) -> None:
    report = report_of(kineto_trace.write(nsys, tmp_path / "t.json"))
    reasons = {n.code: n.reason for n in report.not_checked}
    assert {"osrt", "gil", "samples", "gil-contention"} <= set(reasons)
    assert "unstall run" in reasons["osrt"] and "with_stack=True" in reasons["samples"]
    assert not any("--trace" in r for r in reasons.values())


def test_cpu_only_says_how_to_record_the_gpu(tmp_path: Path) -> None:
    path = text(tmp_path, document([event()], deviceProperties=[{"id": 0, "name": "NVIDIA H200"}]))
    profile = load(path)
    assert profile.kernels is None and profile.api is None, "not recorded is not empty"
    assert {n.code for n in profile.notes} == {"cuda-not-recorded", "no-annotations"}
    assert "ProfilerActivity.CUDA" in {n.code: n.reason for n in report_of(path).not_checked}["kernels"]


def test_graph_nodes_share_their_launch(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.graph_launch(us(1), us(10), kernels=[("a", us(20), us(22)), ("b", us(23), us(29))])
    kernels = load(kineto_trace.write(t.profile(), tmp_path / "t.json")).kernels
    assert kernels is not None
    assert kernels["graph_node"].to_list() == [1, 2] and kernels["correlation"].n_unique() == 1


def test_two_processes_merged_into_one_file(tmp_path: Path) -> None:
    t = TraceBuilder(pid=100)
    t.launch("mine", us(10))
    t.process(200)
    t.api("cudaFree", us(1), us(2))
    t.launch("theirs", us(50))  # correlation 2: only process 200 made such a call
    kernels = load(kineto_trace.write(t.profile(), tmp_path / "t.json")).kernels
    assert kernels is not None
    owners = {str(n): (p >> 24) & 0xFFFFFF for n, p in kernels.select("name", "process").iter_rows()}
    assert owners["theirs"] == 200 and owners["mine"] == 100


def test_calls_on_a_thread_that_cupti_numbers(tmp_path: Path) -> None:
    events = [
        event(tid=31, **{"args": {"External id": 5}}),
        event("cuda_runtime", name="cudaLaunchKernel", tid=3_405_691_582, args={"External id": 5, "correlation": 1}),
        event("cuda_runtime", name="cudaFree", tid=2_147_483_000, args={"correlation": 2}),
    ]
    api = load(text(tmp_path, document(events))).api
    assert api is not None
    launched, other = (int(t) & 0xFFFFFF for t in api.sort("correlation")["thread"])
    assert launched == 31 and other not in (31, 2_147_483_000 & 0xFFFFFF)


def test_python_calls_become_samples(tmp_path: Path) -> None:
    calls = [
        event("python_function", name="train.py(3): <module>", ts=0, dur=10_000, args={"Python id": 1}),
        event("python_function", name="src/data.py(7): load", ts=1_000, dur=6_000, args={"Python id": 2}),
        event("python_function", name="<built-in function sleep>", ts=2_000, dur=3_000, args={"Python id": 3}),
    ]
    profile = load(text(tmp_path, document(calls)))
    assert profile.samples is not None and profile.frames is not None
    found = report_of(text(tmp_path, document(calls))).samples
    assert found is not None
    shares = {r.symbol: r.percent for r in found}
    assert shares["load (data.py)"] == pytest.approx(30, abs=1) and shares["<module> (train.py)"] == pytest.approx(
        40, abs=1
    )
    assert shares["<built-in function sleep>"] == pytest.approx(30, abs=1)
    deepest = profile.frames.filter(pl.col("depth") == 2)
    assert deepest["symbol"].cast(pl.String).to_list() == ["<module> (train.py)"]


def test_samples_are_bounded(tmp_path: Path) -> None:
    calls = [event("python_function", name="f", ts=0, dur=10**9)]
    samples = load(text(tmp_path, document(calls))).samples
    assert samples is not None and 19_000 < len(samples) <= 20_000


def test_names_of_torch_1_8(tmp_path: Path) -> None:
    place = {"device": 0, "stream": 7, "context": 1}
    events = [
        event("Operator", name="ProfilerStep#4"),
        event("Runtime", name="cudaLaunchKernel", args={"correlation": 9}),
        event("Kernel", name="k", pid=0, tid="stream 7", args={**place, "correlation": 9, "grid": [2, 1, 1]}),
        event("Memcpy", name="Memcpy DtoH (Device -> Pinned)", pid=0, args={**place, "bytes": 8}),
    ]
    profile = load(text(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": events})))
    assert profile.ranges is not None and profile.ranges["domain"].cast(pl.String).to_list() == [""]
    assert profile.kernels is not None and profile.kernels["grid_x"].to_list() == [2]
    assert profile.copies is not None
    assert profile.copies.select("kind", "source", "destination", "bytes").row(0) == ("DtoH", "device", "pinned", 8)


@pytest.mark.parametrize(
    ("ts", "dur", "ns"),
    [
        ("1661938466265032", "25", 25_000),  # whole microseconds since 1970 (torch 1.x)
        ("1661938466265032123", "25", 25),  # nanoseconds since 1970
        ("5336468184253.617", "0.001", 1),
        ('"5336468184253.617"', '"2.5"', 2_500),
    ],
)
def test_units_of_time(tmp_path: Path, ts: str, dur: str, ns: int) -> None:
    ranges = load(
        text(tmp_path, document([event(ts="TS", dur="DUR")]).replace('"TS"', ts).replace('"DUR"', dur))
    ).ranges
    assert ranges is not None and ranges.select(pl.col("end") - pl.col("start")).item() == ns


# ---- bad input -------------------------------------------------------------------------------------------------------


def refused(path: Path, kind: type[ProfileUnreadable] = ProfileUnreadable) -> str:
    with pytest.raises(ProfileUnreadable) as failure:
        load(path)
    assert type(failure.value) is kind and failure.value.why and failure.value.hint
    assert "\n" not in str(failure.value) and str(path) in str(failure.value)
    return str(failure.value)


def test_cut_off(tmp_path: Path, nsys: Profile) -> None:
    whole = kineto_trace.write(nsys, tmp_path / "whole.json").read_bytes()
    packed = gzip.compress(whole)
    for share in (0.2, 0.5, 0.99):
        assert "cut off" in refused(text(tmp_path, whole[: int(share * len(whole))]))
        assert "cut off" in refused(text(tmp_path, packed[: int(share * len(packed))], "t.json.gz"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1, "b": [2]}', "JSON of something else (keys 'a', 'b')"),
        ('{"unstall_version": "1", "profile": {}}', "a report of unstall"),
        ('{"traceEvents": [{"ph": "X", "cat": "toplevel", "name": "x", "ts": 1, "dur": 1}]}', "not one of PyTorch's"),
        ('{"traceEvents": 5}', "JSON of something else"),
        ('{"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}}]}',
         "JAX"),
    ],
)  # fmt: skip
def test_other_json(tmp_path: Path, content: str, said: str) -> None:
    assert said in refused(text(tmp_path, content), NotAProfile)


@pytest.mark.parametrize("content", [document([]), document([event("Trace", pid="Spans", tid="PyTorch Profiler")])])
def test_an_empty_trace(tmp_path: Path, content: str) -> None:
    assert "without a single event" in refused(text(tmp_path, content))


def test_not_json(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"traceEvents": [' + random.Random(5).randbytes(1 << 18).hex().encode())
    damaged = packed[:-9000] + b"\xff" * 50 + packed[-8950:]
    assert "not valid JSON" in refused(text(tmp_path, '{"traceEvents": [}]}'))
    assert "damaged gzip" in refused(text(tmp_path, damaged, "t.gz"))


def test_too_large_once_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "LARGEST", 10_000)
    bomb = b'{"traceEvents": [' + b" " * 100_000 + b"]}"
    assert "more than 2 GB" in refused(text(tmp_path, gzip.compress(bomb), "t.json.gz"))
    assert "more than 2 GB" in refused(text(tmp_path, bomb))


def test_bare_words_for_numbers_and_broken_text_are_mended(tmp_path: Path) -> None:
    """torch 1.x writes ``inf`` where a GPU's figures are unknown; names may be cut in the middle of a character."""
    good = document([event("kernel", name="NAME", args={"correlation": 1, "blocks per SM": "INF", "x": "NAN"})])
    content = good.encode().replace(b'"INF"', b"inf").replace(b'"NAN"', b"-nan(ind)").replace(b"NAME", b"\xec\x8a")
    kernels = load(text(tmp_path, content)).kernels
    assert kernels is not None and len(kernels) == 1


def test_a_malformed_event_costs_only_itself(tmp_path: Path) -> None:
    odd = [
        event(ts="soon"), event(name=5), event(args=[1]), event(ts=None), event(dur=-4), event(ts=1e300),
        event(ts=-1e300),
        event("kernel", args={"correlation": "x", "grid": "1,1,1", "stream": 1.5, "device": {}}),
        event(pid={}, tid=[]),
    ]  # fmt: skip
    profile = load(text(tmp_path, document([event(), *odd])))
    assert profile.ranges is not None and profile.kernels is not None
    assert len(profile.ranges) == 2 and len(profile.kernels) == 1
    assert profile.kernels["correlation"].to_list() == [None]
    assert {"bad-values", "end-before-start"} <= {n.code for n in profile.notes}


def test_numbers_that_would_take_forever(tmp_path: Path) -> None:
    content = document([event(), event(ts=0)]).replace('"ts": 0', '"ts": 1e999999999')
    ranges = load(text(tmp_path, content)).ranges
    assert ranges is not None and len(ranges) == 1


def test_numbers_beyond_64_bits(tmp_path: Path) -> None:
    content = document([event(), event(pid=2**64), event(tid=-(2**63)), event(ts=10**18), event(dur=4 * 10**18)])
    profile = load(text(tmp_path, content))
    assert profile.ranges is not None and len(profile.ranges) == 4
    assert profile.ranges["end"].null_count() == 1, "an impossible length is an unknown one"
    assert {"rows-without-time"} <= {n.code for n in profile.notes}


@pytest.mark.parametrize("seed", range(3))
def test_mutations_are_read_or_refused_in_one_line(tmp_path: Path, nsys: Profile, seed: int) -> None:
    """A thousand more with other seeds found none that raises anything else."""
    whole, random_ = kineto_trace.trace(nsys), random.Random(seed)
    odd = [None, -1, 1e308, 2**64, "x", [], {}, True, "9" * 30, 0.5, "\x1b[31m"]
    for _ in range(6):
        mutant = json.loads(kineto_trace.dumps(whole))
        for _ in range(8):
            some = random_.choice(mutant["traceEvents"])
            inner = some["args"] if isinstance(some.get("args"), dict) and random_.random() < 0.5 else some
            inner[random_.choice([*inner, "ts", "name"])] = random_.choice(odd)
        data = bytearray(json.dumps(mutant).encode())
        for _ in range(random_.randint(0, 2)):
            data[random_.randrange(len(data))] = random_.randrange(256)
        path = text(tmp_path, bytes(data))
        try:
            assert report_of(path, cache=False).profile.producer == "kineto"
        except ProfileUnreadable as error:
            assert "\n" not in str(error)


def test_the_file_is_left_alone(tmp_path: Path, nsys: Profile) -> None:
    path = kineto_trace.write(nsys, tmp_path / "t.json.gz")
    before = path.read_bytes()
    load(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["t.json.gz"]
