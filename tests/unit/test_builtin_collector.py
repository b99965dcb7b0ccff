"""The built-in collector without torch: what it hears of NVTX, what it samples, and a file that is whole or absent."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import unstall
from unstall.collect import _builtin_kineto as kineto
from unstall.collect import builtin
from unstall.collect._builtin_merge import GLOBAL, merge
from unstall.collect._builtin_schema import TABLES, Writer
from unstall.instrument import Options, environment
from unstall.instrument.spool import Part, documents

Collect = Callable[..., unstall.Profile]


@pytest.fixture
def collect(tmp_path: Path) -> Collect:
    """Run a script under the collector, load what came of it."""

    def run(code: str, **options: Any) -> unstall.Profile:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(code))
        asked = Options(record=str(tmp_path / "parts"), **options)
        made = builtin.record([sys.executable, str(script)], environment(asked), folder=tmp_path)
        assert made.ended.code == 0 and made.sqlite is not None and made.notes == ()
        return unstall.load(made.sqlite)

    return run


def rows(frame: pl.DataFrame | None, *columns: str) -> list[tuple[Any, ...]]:
    assert frame is not None
    return frame.select(pl.col(c).cast(pl.String) if frame[c].dtype == pl.Categorical else c for c in columns).rows()


def test_every_way_of_writing_nvtx_is_heard(collect: Collect) -> None:
    pytest.importorskip("nvtx")
    profile = collect(
        """
        import nvtx, unstall
        from nvtx import annotate
        with nvtx.annotate("with"): pass
        with annotate("domain", domain="mine", color="blue"): pass
        @nvtx.annotate()
        def function(): return 5
        assert function() == 5
        @annotate("named", domain="mine")
        def other(a, *, b): return a, b
        assert other(1, b=2) == (1, 2)
        nvtx.push_range("pushed", "green", "mine"); nvtx.pop_range("mine")
        nvtx.pop_range()  # one too many
        started = nvtx.start_range("started"); nvtx.end_range(started)
        domain = nvtx.get_domain("by hand")
        attributes = domain.get_event_attributes(message="attributes", color="red")
        domain.push_range(attributes); domain.pop_range()
        attributes.message = domain.get_registered_string("registered")
        domain.end_range(domain.start_range(attributes))
        nvtx.mark("moment", domain="mine")
        with unstall.annotate("한국어 ✓"), unstall.step(3): pass
        nvtx.push_range("never closed")
        """
    )
    assert rows(profile.ranges, "name", "domain", "style") == [
        ("with", "", "push_pop"), ("domain", "mine", "push_pop"), ("function", "", "push_pop"),
        ("named", "mine", "push_pop"), ("pushed", "mine", "push_pop"), ("started", "", "start_end"),
        ("attributes", "by hand", "push_pop"), ("registered", "by hand", "start_end"), ("한국어 ✓", "", "push_pop"),
        ("step_3", "", "push_pop"), ("never closed", "", "push_pop"),
    ]  # fmt: skip
    assert rows(profile.marks, "name", "domain") == [("moment", "mine")]
    ends = profile.ranges["end"]  # type: ignore[index]
    assert ends.null_count() == 1 and ends[-1] is None


def test_what_is_not_collected_is_absent_and_said(collect: Collect, tmp_path: Path) -> None:
    profile = collect("import unstall\nwith unstall.annotate('x'): pass\n")
    assert profile.meta.producer == "unstall" and profile.meta.producer_version == unstall.__version__
    for table in ("kernels", "copies", "api", "syncs", "osrt", "gil", "sched", "gpu_metrics"):
        assert profile.table(table) is None, table
    with closing(sqlite3.connect(tmp_path / "profile.sqlite")) as db:
        meta = dict(db.execute("SELECT name, value FROM UNSTALL_META"))
    reasons = json.loads(meta["not_collected_reasons"])
    assert sorted(reasons) == json.loads(meta["not_collected"])
    assert reasons["kernels"] == "no process set up CUDA through torch, whose profiler records the GPU"
    (usage,) = json.loads(meta["processes"]).values()
    assert usage["cpus"] >= 1 and usage["max_rss_bytes"] > 1_000_000
    assert profile.meta.cores == usage["cpus"]


def test_the_cpu_clock_of_a_range_tells_computing_from_waiting(collect: Collect) -> None:
    profile = collect(
        "import time, unstall\n"
        "end = time.thread_time() + 0.2\n"
        "with unstall.annotate('computes'):\n    while time.thread_time() < end: pass\n"
        "with unstall.annotate('waits'): time.sleep(0.2)\n"
    )
    computes, waits = profile.ranges["cpu_ns"]  # type: ignore[index]
    assert computes >= 190_000_000 and waits < 50_000_000


def test_nothing_of_the_environment_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cr3t-value")
    env = environment(Options(record=str(tmp_path / "parts")))
    code = "import unstall\nwith unstall.annotate('x'): pass"
    made = builtin.record([sys.executable, "-c", code, "s3cr3t-argument"], env, folder=tmp_path)
    assert made.sqlite is not None
    assert b"s3cr3t" not in made.sqlite.read_bytes()


def test_range_knows_its_cpu_time(collect: Collect, tmp_path: Path) -> None:
    collect(
        """
        import time, unstall
        with unstall.annotate("asleep"): time.sleep(0.2)
        with unstall.annotate("busy"):
            end = time.thread_time() + 0.1
            while time.thread_time() < end: pass
        """
    )
    with closing(sqlite3.connect(tmp_path / "profile.sqlite")) as db:
        found = db.execute("SELECT value, end - start, cpuNs FROM NVTX_EVENTS JOIN StringIds ON id = textId")
        asleep, busy = ((wall, cpu) for _, wall, cpu in found)
    assert asleep[0] >= 200_000_000 and asleep[1] < 100_000_000
    assert busy[1] >= 99_000_000


def test_python_stacks_show_where_each_thread_is(collect: Collect) -> None:
    profile = collect(
        """
        import threading, time
        def spin():
            end = time.thread_time() + 1.0
            while time.thread_time() < end: pass
        def wait(): time.sleep(1.0)
        worker = threading.Thread(target=spin, name="worker"); worker.start(); wait(); worker.join()
        """
    )
    leaf = rows(profile.frames, "symbol", "depth", "callchain")
    symbols = {symbol for symbol, depth, _ in leaf if depth == 0}
    assert {"spin (script.py)", "wait (script.py)"} <= symbols
    chain = next(c for s, d, c in leaf if (s, d) == ("spin (script.py)", 0))
    outer = [s for s, _, c in leaf if c == chain]
    assert outer[1].endswith("run (threading.py)") and len(outer) >= 3, "innermost first"
    names = dict(rows(profile.threads, "name", "thread"))
    assert names["worker"] in set(profile.samples["thread"])  # type: ignore[index]


def test_forked_and_spawned_workers_are_in_the_file(collect: Collect) -> None:
    profile = collect(
        """
        import multiprocessing, os, time, unstall
        def work(name):
            with unstall.annotate(name): time.sleep(0.05)
        if __name__ == "__main__":
            with unstall.annotate("main"):
                for method in ("fork", "spawn"):
                    p = multiprocessing.get_context(method).Process(target=work, args=(method,)); p.start(); p.join()
                if not os.fork():
                    work("os.fork"); raise SystemExit
                os.wait()
        """
    )
    found = rows(profile.ranges, "name", "process")
    assert sorted(name for name, _ in found) == ["fork", "main", "os.fork", "spawn"]
    assert len({process for _, process in found}) == 4
    main = next(r for r in rows(profile.ranges, "name", "start", "end") if r[0] == "main")
    for _, start, end in rows(profile.ranges, "name", "start", "end"):
        assert main[1] <= start < end <= main[2], "one clock for all processes"


def test_steps_window_records_only_those(collect: Collect) -> None:
    profile = collect(
        """
        import unstall
        for i in range(8):
            with unstall.step(i), unstall.annotate("body"): pass
        """,
        steps=(3, 5),
        window="record",
    )
    assert [name for (name,) in rows(profile.ranges, "name")] == ["step_3", "body", "step_4", "body"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_what_a_killed_process_had_written_is_kept(tmp_path: Path, how: signal.Signals) -> None:
    code = """
        import time, unstall
        for i in range(10_000):
            with unstall.annotate("turn"): time.sleep(0.01)
    """
    env = environment(Options(record=str(tmp_path / "parts")))
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=env, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: any("ranges" in d and d["ranges"] for d in spooled(tmp_path)))
        process.send_signal(how)
        code_ = process.wait()
    assert code_ == -how, "it dies as it would have"
    said = merge(tmp_path / "parts", tmp_path / "x.sqlite")
    profile = unstall.load(tmp_path / "x.sqlite")
    assert len(rows(profile.ranges, "name")) >= 20
    killed = how == signal.SIGKILL
    assert len(said) == killed and (not killed or "ended before it could write" in said[0])


def spooled(folder: Path) -> list[dict[str, Any]]:
    return [d for path in (folder / "parts").glob("*.jsonl") for d in documents(path)]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "nothing was written in 30 s"
        time.sleep(0.05)


def test_a_line_cut_off_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    part = Part(str(tmp_path), 5)
    part.append({"kind": "process", "pid": 5, "parent": 1, "name": "x", "rank": None, "time": 10, "utc": 20})
    part.append({"kind": "events", "strings": ["a", ""], "ranges": [[11, 12, 0, 1, 59, 5, 5, 1]]})
    whole = part.path.read_bytes()
    part.path.write_bytes(whole + b'{"kind": "events", "strings": ["b"], "ran')
    assert merge(tmp_path, tmp_path / "x.sqlite") == [
        "Process 5 (x) was ended before it could write its last half second."
    ]
    assert rows(unstall.load(tmp_path / "x.sqlite").ranges, "name", "start", "end") == [("a", 1, 2)]


def test_parts_that_found_no_room_are_not_taken_for_a_program_without_python(tmp_path: Path) -> None:
    env = environment(Options(record=str(tmp_path / "parts")))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "7.jsonl").touch()  # what a full disk leaves
    made = builtin.record(["true"], env, folder=tmp_path)
    assert made.sqlite is None and [n.code for n in made.notes] == ["not-kept"]
    assert "--output" in made.notes[0].text


def test_nothing_recorded_is_no_file(tmp_path: Path) -> None:
    env = environment(Options(record=str(tmp_path / "parts")))
    made = builtin.record(["true"], env, folder=tmp_path)
    assert made.sqlite is None and [n.code for n in made.notes] == ["nothing-recorded"]
    assert list(tmp_path.iterdir()) == []


def test_a_merge_that_fails_leaves_nothing(tmp_path: Path) -> None:
    part = Part(str(tmp_path / "parts"), 5)
    part.append({"kind": "process", "pid": 5, "parent": 1, "name": "x", "rank": None, "time": 10, "utc": 20})
    part.append({"kind": "events", "strings": [], "ranges": [[11, 12, 99, 0, 59, 5, 5, 1]]})
    with pytest.raises(IndexError):
        merge(tmp_path / "parts", tmp_path / "x.sqlite")
    assert [p.name for p in tmp_path.iterdir()] == ["parts"]


def test_recording_a_block_of_this_process(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with builtin.recording(tmp_path / f"{name}.sqlite"), unstall.annotate(name):
            pass
        assert rows(unstall.load(tmp_path / f"{name}.sqlite").ranges, "name") == [(name,)]


def test_file_appears_whole(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.sqlite")
    for table, columns in TABLES.items():
        writer.add(table, [[None] * len(columns)])
        assert not (tmp_path / "x.sqlite").exists()
    writer.commit()
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite"]


# ---- Kineto -------------------------------------------------------------------------------------------------------

UTC = 1_700_000_000_000_000_000  # wall-clock time when the recorder's clock says 0
BASE = UTC - 5_000_000_000


def event(cat: str, name: str, at: int, duration: int, tid: int = 7, **args: Any) -> dict[str, Any]:
    """``at``: on the recorder's clock, ns."""
    ts = f"{(UTC + at - BASE) / 1000:.3f}"
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": f"{duration / 1000:.3f}",
            "args": args}  # fmt: skip


def trace(events: list[dict[str, Any]], folder: Path) -> Path:
    text = json.dumps({"baseTimeNanoseconds": BASE, "traceEvents": [{"ph": "M", "name": "process_name"}, *events]})
    for key in ("ts", "dur"):  # as Kineto writes them: numbers with three decimals
        text = json_numbers(text, key)
    path = folder / "kineto-5.json"
    path.write_text(text)
    return path


def json_numbers(text: str, key: str) -> str:
    head, *rest = text.split(f'"{key}": "')
    return head + "".join(f'"{key}": ' + part.replace('"', "", 1) for part in rest)


ON_GPU = {"device": 0, "context": 1, "stream": 7}
GPU_EVENTS = [
    event("cuda_runtime", "cudaDeviceSynchronize", 1_000_000, 20_000, correlation=1),
    event("cuda_runtime", "cudaLaunchKernel", 2_000_000, 5_001, tid=-2_147_000_000, correlation=2),
    event("kernel", "void at::native::(anonymous namespace)::add<float, 4>(int, float*)", 2_010_007, 30_003,
          **ON_GPU, correlation=2, grid=[8, 1, 1], block=[128, 1, 1], **{"registers per thread": 32}),
    event("cuda_runtime", "cudaMemcpyAsync", 3_000_000, 4_000, tid=501, correlation=3),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 3_010_000, 90_000, **ON_GPU, correlation=3, bytes=4096),
    event("gpu_memset", "Memset (Device)", 3_200_000, 1_000, **ON_GPU, correlation=4, bytes=64),
    event("cuda_driver", "cuLaunchKernel", 3_300_000, 2_000, tid=501, correlation=5),
    event("cuda_sync", "Stream Wait Event", 3_400_000, 1_000, **ON_GPU, correlation=6,
          cuda_sync_kind="Stream Wait Event", wait_on_cuda_event_id=9),
    event("overhead", "Activity Buffer Request", 3_500_000, 2_000, tid=0),
    event("cuda_runtime", "cudaDeviceSynchronize", 9_000_000, 20_000, correlation=8),
    event("cpu_op", "aten::add", 1, 1),
]  # fmt: skip


def document(path: Path, drift: int = 0) -> dict[str, Any]:
    """Markers around the two synchronisations; wall-clock time read ``drift`` later than it is at the second."""
    markers = [[990_000, 1_030_000, UTC + 1_030_000], [8_990_000, 9_030_000, UTC + 9_030_000 + drift]]
    return {"kind": "gpu", "file": path.name, "markers": markers, "cut": "", "devices": [],
            "threads": {str(-2_147_000_000 & 0xFFFFFFFF): 777}}  # fmt: skip


def test_kineto_rows(tmp_path: Path) -> None:
    path = trace(GPU_EVENTS, tmp_path)
    found = kineto.read(path, document(path), 0)
    assert found.kernels == [
        (2_010_007, 2_040_010, 0, 1, 7, 2, "void at::native::(anonymous namespace)::add<float, 4>(int, float*)", "add",
         32, 8, 1, 1, 128, 1, 1, None, None, None),
    ]  # fmt: skip
    assert found.copies == [(3_010_000, 3_100_000, 0, 1, 7, 3, 4096, 1, 0, 2, None)]
    assert found.memsets == [(3_200_000, 3_201_000, 0, 1, 7, 4, 64, 2, None)]
    assert found.syncs == [(3_400_000, 3_401_000, 0, 1, 7, 6, 2, 9)]
    assert [(c[2], c[3], c[5]) for c in found.calls] == [
        (0, 7, "cudaDeviceSynchronize"), (0, 777, "cudaLaunchKernel"), (0, 501, "cudaMemcpyAsync"),
        (1, 501, "cuLaunchKernel"), (0, 7, "cudaDeviceSynchronize"),
    ]  # fmt: skip
    assert found.clock_error_ns == 10_000, "readings 40 µs apart around a call of 20 µs"


@pytest.mark.parametrize("offset", [0, 700_000, -700_000])
def test_kineto_clock_that_is_off_is_put_right(tmp_path: Path, offset: int) -> None:
    shifted = [{**e, "ts": f"{float(e['ts']) + offset / 1000:.3f}"} for e in GPU_EVENTS]
    path = trace(shifted, tmp_path)
    (kernel,) = kineto.read(path, document(path), 0).kernels
    assert abs(kernel[0] - 2_010_007) <= 1


def test_kineto_clock_that_drifts_is_put_right(tmp_path: Path) -> None:
    """Wall-clock time was slowed down between the two ends: 400 µs over 8 ms, and everything in proportion."""
    slow = [
        {**e, "ts": f"{float(e['ts']) + 0.05 * (float(e['ts']) - float(GPU_EVENTS[0]['ts'])):.3f}"} for e in GPU_EVENTS
    ]
    path = trace(slow, tmp_path)
    (kernel,) = kineto.read(path, document(path, drift=400_000), 0).kernels
    assert abs(kernel[0] - 2_010_007) < 1_000


def test_kineto_without_a_marking_synchronisation(tmp_path: Path) -> None:
    path = trace([e for e in GPU_EVENTS if e["name"] != "cudaDeviceSynchronize"], tmp_path)
    found = kineto.read(path, document(path), 0)
    assert found.kernels[0][0] == 2_010_007 and found.clock_error_ns is None
    bare = kineto.read(path, {"kind": "gpu", "file": path.name}, UTC)
    assert bare.kernels[0][0] == 2_010_007


def test_gpu_rows_load_like_nsyss(tmp_path: Path) -> None:
    part = Part(str(tmp_path), 5)
    path = trace(GPU_EVENTS, tmp_path)
    part.append({"kind": "process", "pid": 5, "parent": 1, "name": "x", "rank": 2, "time": 0, "utc": UTC})
    part.append({"kind": "events", "strings": ["load", ""], "ranges": [[2_900_000, 3_100_000, 0, 1, 59, 501, 501, 1]]})
    device = {"id": 0, "name": "NVIDIA H200", "totalMemory": 1 << 37, "smCount": 132, "computeMajor": 9}
    part.append({**document(path), "devices": [device]})
    part.append({"kind": "end", "time": 9_500_000, "utc": 0, "cpus": 2})
    assert merge(tmp_path, tmp_path / "x.sqlite") == []
    profile = unstall.load(tmp_path / "x.sqlite")
    assert rows(profile.kernels, "short_name", "process", "stream") == [("add", GLOBAL | 5 << 24, 7)]
    assert rows(profile.copies, "kind", "source", "destination", "bytes") == [("HtoD", "pageable", "device", 4096)]
    assert rows(profile.syncs, "kind") == [("stream_wait_event",)]
    assert rows(profile.gpus, "name", "sm_count") == [("NVIDIA H200", 132)]
    assert profile.meta.rank == 2 and profile.meta.utc_epoch_ns == UTC and profile.meta.duration_ns == 9_500_000
    analysis = unstall.report_of(tmp_path / "x.sqlite")
    assert analysis.ranges is not None and analysis.ranges[0].gpu_ns == 90_000, "joined by (process, correlation)"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("sm90_xmma_gemm_bf16", "sm90_xmma_gemm_bf16"),
        ("void cutlass::Kernel2<cutlass_80_tensorop>(cutlass_80_tensorop::Params)", "Kernel2"),
        ("ncclDevKernel_AllReduce_Sum_f32(ncclDevComm*, unsigned long)", "ncclDevKernel_AllReduce_Sum_f32"),
        ("(anonymous namespace)::softmax(float*)", "softmax"),
        ("std::enable_if<true, void>::type fast_gemv<int>(int)", "enable_if"),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert kineto.short_name(name) == short


def test_recording_that_cannot_be_written_is_one_line_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "parts").write_text("a file, where a folder should be")
    code = "import time, unstall\nfor i in range(200):\n  with unstall.annotate('x'): time.sleep(0.01)\nprint('end')"
    line = [sys.executable, "-c", code]
    env = environment(Options(record=str(tmp_path / "parts")))
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "end\n"
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("unstall: recording ends here: ")
