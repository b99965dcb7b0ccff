"""The GPU's trace of the built-in collector, with a torch that has none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unstall.instrument import gpu
from unstall.instrument.options import Options


class Profiler:
    """Writes where it is told to, and is silent where it cannot, as Kineto is."""

    full = False

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def export_chrome_trace(self, path: str) -> None:
        if not self.full and Path(path).parent.is_dir():
            Path(path).write_text("{}")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def stopped(*, full: bool) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        cuda = SimpleNamespace(
            is_initialized=lambda: True, is_current_stream_capturing=lambda: False, synchronize=lambda: None
        )
        torch, recorder = SimpleNamespace(cuda=cuda), SimpleNamespace(note=told.append)
        trace = gpu.GpuTrace(torch, recorder, Options(record=str(tmp_path / "parts")))
        profiler = Profiler()
        profiler.full = full
        monkeypatch.setattr(trace, "_make", lambda: profiler)
        monkeypatch.setattr(trace, "_threads", dict)
        monkeypatch.setattr(gpu, "_devices", lambda torch: [])
        trace.start()
        trace.stop()
        return told

    return stopped


def test_window_that_ends_before_anything_was_written_keeps_its_trace(notes: Any, tmp_path: Path) -> None:
    """The folder of the parts is made by the first thing written, which may be this."""
    (told,) = notes(full=False)
    assert (tmp_path / "parts" / told["file"]).read_text() == "{}"


def test_trace_that_could_not_be_written_is_said(notes: Any) -> None:
    (told,) = notes(full=True)
    assert told == {"kind": "gpu", "missing": "torch.profiler could not write its trace"}
