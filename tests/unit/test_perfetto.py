"""The Perfetto trace: read with Perfetto's own definitions, and played back as its trace processor does."""

from __future__ import annotations

import io
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import unstall
from unstall import packets
from unstall.analyze.tracks import tracks
from unstall.report import outputs, perfetto
from unstall.testing import TraceBuilder, ms, us

proto = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs the package perfetto, whose definitions it reads"
)

Slice = tuple[str, str, int, int, int]  # track, name, start, end, depth


def written(trace: TraceBuilder) -> bytes:
    return exported(unstall.analyze(trace.profile()))


def exported(analysis: Any) -> bytes:
    file = io.BytesIO()
    perfetto.write(tracks(analysis), file)
    return file.getvalue()


class Played:
    """A trace as the trace processor takes it: packets in stable order of time, a stack of slices a track."""

    def __init__(self, raw: bytes) -> None:
        trace = proto.Trace()
        trace.ParseFromString(raw)
        self.packets = list(trace.packet)
        self.tracks = {
            p.track_descriptor.uuid: p.track_descriptor for p in self.packets if p.HasField("track_descriptor")
        }
        self.names: dict[int, str] = {}
        for packet in self.packets:
            for entry in packet.interned_data.event_names:
                assert entry.iid not in self.names, "a number is given once"
                self.names[entry.iid] = entry.name
        self.slices: list[Slice] = []
        self.counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.flows: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self.play()

    def play(self) -> None:
        stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
        events = [p for p in self.packets if p.HasField("track_event")]
        for packet in sorted(events, key=lambda p: p.timestamp):
            event, at = packet.track_event, packet.timestamp
            track = self.name_of(event.track_uuid)
            if event.type == proto.TrackEvent.TYPE_COUNTER:
                self.counters[track].append((at, event.double_counter_value))
            elif event.type == proto.TrackEvent.TYPE_SLICE_BEGIN:
                assert packet.sequence_flags & packets.NEEDED
                stacks[event.track_uuid].append((self.names[event.name_iid], at))
                for flow in event.flow_ids:
                    self.flows[flow].append((track, at))
            else:
                name, start = stacks[event.track_uuid].pop()
                self.slices.append((track, name, start, at, len(stacks[event.track_uuid])))
        assert not any(stacks.values()), "everything that begins ends"

    def name_of(self, uuid: int) -> str:
        """Names from the outermost parent on."""
        track = self.tracks[uuid]
        own = track.name or track.thread.thread_name or track.process.process_name
        return f"{self.name_of(track.parent_uuid)}/{own}" if track.parent_uuid else own

    def on(self, ending: str) -> list[Slice]:
        return [s for s in self.slices if s[0].endswith(ending)]


def test_ranges_calls_and_kernels_stand_on_tracks_of_their_thread_and_stream() -> None:
    trace = TraceBuilder(pid=77)
    trace.thread(77, name="main")
    trace.range("step", 0, ms(3))
    trace.range("forward", us(10), ms(2))
    trace.launch("gemm", at=us(20), dur=us(5), kernel_start=us(40), kernel_dur=us(30), stream=9)
    played = Played(written(trace))
    assert played.on("main/NVTX") == [
        ("python3/main/NVTX", "forward", us(10), ms(2), 1),
        ("python3/main/NVTX", "step", 0, ms(3), 0),
    ]
    assert played.on("CUDA API") == [("python3/main/CUDA API", "cudaLaunchKernel", us(20), us(25), 0)]
    assert played.on("stream 9") == [("python3/GPU 0 NVIDIA H200 stream 9", "gemm", us(40), us(70), 0)]
    process = next(t.process for t in played.tracks.values() if t.HasField("process"))
    thread = next(t.thread for t in played.tracks.values() if t.HasField("thread"))
    assert (process.pid, thread.pid, thread.tid) == (77, 77, 77)


def test_an_arrow_leads_from_a_call_to_its_own_kernel() -> None:
    trace = TraceBuilder()
    trace.launch("a", at=us(10), kernel_start=us(30))
    trace.graph_launch(us(60), kernels=[("g1", us(80), us(90)), ("g2", us(91), us(99))])
    trace.process(200)
    trace.launch("b", at=us(11), kernel_start=us(31))  # the same correlation id in another process
    flows = Played(written(trace)).flows
    ends = sorted([at for _, at in sorted(points, key=lambda p: p[1])] for points in flows.values())
    assert ends == [[us(10), us(30)], [us(11), us(31)], [us(60), us(80)]]
    assert all("CUDA API" in points[0][0] and "stream" in points[1][0] for points in flows.values())


def test_what_touches_and_what_takes_no_time_stays_in_order() -> None:
    trace = TraceBuilder()
    for i in range(3):
        trace.range(f"outer{i}", us(10) * i, us(10) * (i + 1))
        trace.range(f"inner{i}", us(10) * i, us(10) * (i + 1))
        trace.range(f"point{i}", us(10) * i + us(5), us(10) * i + us(5))
    played = Played(written(trace))
    expected = {(f"{n}{i}", *span(i), depth) for i in range(3) for n, span, depth in (
        ("outer", lambda i: (us(10) * i, us(10) * (i + 1)), 0), ("inner", lambda i: (us(10) * i, us(10) * (i + 1)), 1),
        ("point", lambda i: (us(10) * i + us(5), us(10) * i + us(5)), 2))}  # fmt: skip
    assert {s[1:] for s in played.on("NVTX")} == expected


def test_what_crosses_is_put_on_tracks_of_its_own_and_keeps_its_times() -> None:
    trace = TraceBuilder()
    trace.range("one", us(0), us(50), style="start_end")
    trace.range("two", us(30), us(90), style="start_end")
    trace.range("three", us(60), us(70), style="start_end")
    played = Played(written(trace))
    assert {s[1:4] for s in played.on("NVTX start/end")} == {
        ("one", 0, us(50)), ("two", us(30), us(90)), ("three", us(60), us(70))}  # fmt: skip


def test_counters_and_steps() -> None:
    trace = TraceBuilder()
    trace.steps(
        5, ms(1), lambda t, i, at: (t.range(f"step_{i}", at, at + us(900)), t.launch("k", at=at, kernel_dur=us(500)))[0]
    )
    trace.metric("SM Active", us(10), 12.5)
    trace.metric("SM Active", us(20), 50.25)
    played = Played(written(trace))
    assert played.counters["GPU 0: SM Active"] == [(us(10), 12.5), (us(20), 50.25)]
    busy = played.counters["GPU 0: GPU busy [%]"]
    assert busy and all(0 <= v <= 100 for _, v in busy) and max(v for _, v in busy) == 100
    assert [s[1] for s in played.on("Steps")] == [f"step_{i}" for i in range(5)]


def test_any_text_is_a_name() -> None:
    names = ["<script>alert(1)</script>", "\x1b[31mred\x00", "학습 단계 🔥", "", "x" * 5000]
    trace = TraceBuilder()
    for i, name in enumerate(names):
        trace.range(name, ms(i), ms(i) + us(10))
    assert {s[1] for s in Played(written(trace)).on("NVTX")} == set(names)


def test_times_of_a_week_and_thousands_of_names() -> None:
    start = 7 * 24 * 3600 * 10**9
    trace = TraceBuilder()
    for i in range(300):
        trace.range(f"name {i}", start + us(i * 10), start + us(i * 10 + 5))
    played = Played(written(trace))
    assert sorted(s[1:4] for s in played.on("NVTX")) == sorted(
        (f"name {i}", start + us(i * 10), start + us(i * 10 + 5)) for i in range(300)
    )


def test_pieces_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder()
    for i in range(50):
        trace.range(f"r{i % 3}", us(10 * i), us(10 * i + 9))
        trace.launch("k", at=us(10 * i + 1))
    at_once = written(trace)
    monkeypatch.setattr(packets, "ROWS", 7)
    assert sorted(Played(written(trace)).slices) == sorted(Played(at_once).slices)


@pytest.mark.parametrize("name", ["slow_loader_window", "twoproc", "nsys2022_nvtx_cpu"])
def test_a_whole_capture_comes_through(profile_path: Callable[[str], Path], name: str) -> None:
    analysis = unstall.analyze(unstall.load(profile_path(name)))
    played = Played(exported(analysis))
    profile = analysis.profile
    assert profile.ranges is not None
    ranges = profile.ranges.select(pl.col("name").cast(pl.String), "start", "end").drop_nulls()
    assert sorted(s[1:4] for s in played.slices if s[0].endswith(("NVTX", "NVTX start/end"))) == sorted(ranges.rows())
    if profile.kernels is not None:
        kernels = profile.kernels.select(pl.col("name").cast(pl.String), "start", "end")
        assert set(kernels.rows()) <= {s[1:4] for s in played.slices if " stream " in s[0]}
        arrows = analysis.ops.filter(pl.col("api_start").is_not_null()).unique(["process", "correlation"]).height
        assert sum(len(points) == 2 for points in played.flows.values()) == arrows


def test_it_is_an_output_of_its_own() -> None:
    found = next(o for o in outputs() if o.name == "perfetto")
    assert found.stream is perfetto.write and found.render is None


def test_perfettos_own_trace_processor_reads_it(profile_path: Callable[[str], Path], tmp_path: Path) -> None:
    shell = os.environ.get("UNSTALL_TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if shell is None:
        pytest.skip("no trace_processor_shell on this machine (UNSTALL_TRACE_PROCESSOR names one)")
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    analysis = unstall.analyze(unstall.load(profile_path("slow_loader_window")))
    file = tmp_path / "x.pftrace"
    file.write_bytes(exported(analysis))
    processor = TraceProcessor(trace=str(file), config=TraceProcessorConfig(bin_path=shell))
    try:
        (kernels,) = processor.query(
            "select count(*) as n from slice join track on slice.track_id = track.id where track.name like '% stream %'"
        )
        assert kernels.n == analysis.ops.height
        errors = list(processor.query("select name, value from stats where severity = 'error' and value > 0"))
        assert not errors, [(e.name, e.value) for e in errors]
    finally:
        processor.close()
