"""Who listens, and which NVTX library reaches them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from unstall.instrument import importhook, sink

NSYS_2024_2 = {"NVTX_INJECTION64_PATH": "/opt/nvidia/nsight-systems/2024.2.3/target-linux-x64/libToolsInjection64.so"}
NSYS_2025_3 = {"NVTX_INJECTION64_PATH": "/opt/nvidia/nsight-systems/2025.3.1/target-linux-x64/libToolsInjection64.so"}
DEBIAN = {"NVTX_INJECTION64_PATH": "/usr/lib/nsight-systems/target-linux-x64/libToolsInjection64.so"}


class Domain:
    def __init__(self) -> None:
        self.said: list[Any] = []

    def get_event_attributes(self, message: str) -> str:
        self.said.append(("make", message))
        return message.upper()

    def push_range(self, attributes: str) -> None:
        self.said.append(("push", attributes))

    def pop_range(self) -> None:
        self.said.append("pop")

    def start_range(self, attributes: str) -> int:
        return 7

    def end_range(self, handle: int) -> None:
        self.said.append(("end", handle))

    def mark(self, attributes: str) -> None: ...


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """pip nvtx of a chosen version, torch with or without NVTX, nobody listening yet."""
    monkeypatch.setattr(sink, "out", None)
    monkeypatch.setattr(importhook, "_waiting", {})
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    domain = Domain()

    def prepare(environ: dict[str, str], *, pip: str = "", torch: str = "") -> Any:
        sink.set_out(None)
        for name in ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "UNSTALL_NVTX"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        nvtx = ModuleType("nvtx")
        nvtx.get_domain = lambda name: domain  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "nvtx", nvtx if pip else None)  # type: ignore[arg-type]
        monkeypatch.setattr("importlib.metadata.version", lambda name: pip)
        if torch:
            made = ModuleType("torch")
            made.cuda = SimpleNamespace(nvtx=fake_torch_nvtx(works=torch == "cuda"))  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, "torch", made)
        sink.detect(environ)
        return sink.out

    prepare.domain = domain  # type: ignore[attr-defined]
    return prepare


def fake_torch_nvtx(*, works: bool) -> Any:
    def range_pop() -> int:
        if not works:
            raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
        return -1

    none = lambda *_: None  # noqa: E731
    return SimpleNamespace(range_push=none, range_pop=range_pop, range_start=none, range_end=none, mark=none)


def test_nobody_listens(world: Any) -> None:
    assert world({}, pip="0.2.11", torch="cuda") is None


def test_pip_where_it_records(world: Any) -> None:
    assert isinstance(world(NSYS_2024_2, pip="0.2.11", torch="cuda"), sink.PipNvtx)
    assert isinstance(world(NSYS_2025_3, pip="0.2.17", torch="cuda"), sink.PipNvtx)


def test_torch_where_pip_would_be_lost(world: Any) -> None:
    assert isinstance(world(NSYS_2024_2, pip="0.2.12", torch="cuda"), sink.TorchNvtx)


def test_torch_where_nothing_tells_the_version(world: Any) -> None:
    assert isinstance(world(DEBIAN, pip="0.2.17", torch="cuda"), sink.TorchNvtx)


def test_torch_where_pip_is_missing(world: Any) -> None:
    assert isinstance(world(NSYS_2025_3, torch="cuda"), sink.TorchNvtx)


def test_pip_is_better_than_nothing(world: Any) -> None:
    assert isinstance(world(NSYS_2024_2, pip="0.2.17", torch="cpu"), sink.PipNvtx), "a CPU build writes no NVTX"
    assert isinstance(world(NSYS_2024_2, pip="0.2.17"), sink.PipNvtx), "no torch yet"


def test_neither(world: Any) -> None:
    assert world(NSYS_2025_3, torch="cpu") is None


def test_the_user_decides(world: Any) -> None:
    assert isinstance(world({**NSYS_2025_3, "UNSTALL_NVTX": "torch"}, pip="0.2.11", torch="cuda"), sink.TorchNvtx)
    assert world({**NSYS_2025_3, "UNSTALL_NVTX": "off"}, pip="0.2.11", torch="cuda") is None


def test_pip_ranges_are_made_once(world: Any) -> None:
    out = world(NSYS_2025_3, pip="0.2.17")
    for _ in range(2):
        out.push("forward")
        out.pop()
    assert world.domain.said == [("make", "forward"), ("push", "FORWARD"), "pop", ("push", "FORWARD"), "pop"]
    out.end(out.start("step_0"))
    assert world.domain.said[-1] == ("end", 7)


@pytest.mark.parametrize(
    ("nvtx", "nsys", "records"),
    [
        ("0.2.10", None, True), ("0.2.11", (2022, 4), True), ("0.2.12", (2024, 2), False), ("0.2.15", (2022, 4), False),
        ("0.2.17", (2025, 3), True), ("0.3.0", None, False), ("1.0", (2024, 2), False),
    ],
)  # fmt: skip
def test_versions(nvtx: str, nsys: tuple[int, int] | None, records: bool) -> None:
    assert sink.pip_records(nvtx, nsys) is records


def test_importhook_waits_for_the_module_and_leaves_it_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[int] = []
    importhook.when_imported("late_module", lambda module: seen.append(module.value))
    importhook.when_imported("late_module", lambda module: 1 // 0)
    assert seen == []
    import late_module

    assert seen == [1]
    assert "exec_module" not in vars(late_module.__spec__.loader)
    assert capsys.readouterr().err.count("ZeroDivisionError") == 1
    importhook.when_imported("late_module", lambda module: seen.append(2))
    assert seen == [1, 2], "at once, once it is there"
    monkeypatch.delitem(sys.modules, "late_module")


def test_importhook_of_a_module_that_fails(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise OSError('no library')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[Any] = []
    importhook.when_imported("broken_module", seen.append)
    with pytest.raises(OSError, match="no library"):
        import broken_module  # noqa: F401
    assert seen == []
