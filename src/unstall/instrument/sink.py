"""Where ranges go: to NVTX when a profiler listens, to the built-in collector when that runs, else nowhere.

Comes in: the environment that a profiler gives its program. Goes out: :data:`out`, ``None`` when nobody listens, else
an object with ``push``, ``pop``, ``start``, ``end`` and ``mark``. Found out once, when this module is imported.

Which NVTX: pip ``nvtx`` where it records, else ``torch.cuda.nvtx`` once torch is there. pip nvtx 0.2.12 and newer
record nothing, without a word, under nsys 2024.2 and older (seen with 2022.4, 2023.4 and 2024.2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

from unstall.instrument.importhook import when_imported

NEW_PIP_NVTX = (0, 2, 12)
NSYS_FOR_NEW_PIP_NVTX = (2024, 3)  # 2024.2 is the newest that was seen to lose them


class Sink(Protocol):
    """Something that keeps ranges. Push and pop nest on one thread; start and end do not need to."""

    def push(self, name: str) -> Any: ...
    def pop(self) -> Any: ...
    def start(self, name: str) -> Any: ...
    def end(self, handle: Any) -> Any: ...
    def mark(self, name: str) -> Any: ...


class PipNvtx:
    """Ranges through the ``nvtx`` package, in the default domain, as registered strings."""

    KEEP = 4096  # attributes kept ready; beyond it (step_100000) they are made anew

    def __init__(self, module: ModuleType) -> None:
        self._domain = module.get_domain(None)
        self._ready: dict[str, Any] = {}
        self.pop = self._domain.pop_range
        self.end = self._domain.end_range

    def _attributes(self, name: str) -> Any:
        found = self._ready.get(name)
        if found is None:
            found = self._domain.get_event_attributes(message=name)
            if len(self._ready) < self.KEEP:
                self._ready[name] = found
        return found

    def push(self, name: str) -> Any:
        return self._domain.push_range(self._attributes(name))

    def start(self, name: str) -> Any:
        return self._domain.start_range(self._attributes(name))

    def mark(self, name: str) -> Any:
        return self._domain.mark(self._attributes(name))


class OldPipNvtx:
    """The same before 0.2.12, whose domains have no methods for ranges. It keeps attributes ready by itself."""

    def __init__(self, module: ModuleType) -> None:
        self.push, self.pop = module.push_range, module.pop_range
        self.start, self.end, self.mark = module.start_range, module.end_range, module.mark


class TorchNvtx:
    """Ranges through ``torch.cuda.nvtx``; works with every nsys, not with a CPU build of torch."""

    def __init__(self, module: ModuleType) -> None:
        self.push, self.pop = module.range_push, module.range_pop
        self.start, self.end, self.mark = module.range_start, module.range_end, module.mark


def listening(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a profiler that takes NVTX started this process (nsys and ncu both set the injection library)."""
    return bool(environ.get("NVTX_INJECTION64_PATH") or environ.get("NSYS_PROFILING_SESSION_ID"))


def nsys_version(environ: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """The version in the path of nsys's injection library, where the path holds one."""
    found = re.search(r"(20\d\d)\.(\d+)", environ.get("NVTX_INJECTION64_PATH", ""))
    return (int(found[1]), int(found[2])) if found else None


def pip_records(nvtx_version: str, nsys: tuple[int, ...] | None) -> bool:
    """Whether pip nvtx of this version records under this nsys; unknown counts as no."""
    numbers = tuple(int(n) for n in re.findall(r"\d+", nvtx_version)[:3])
    return numbers < NEW_PIP_NVTX or (nsys is not None and nsys >= NSYS_FOR_NEW_PIP_NVTX)


def pip_nvtx_version() -> str:
    """The version of pip nvtx for this Python; empty without."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("nvtx")
    except PackageNotFoundError:
        return ""


def _pip() -> Sink | None:
    try:
        import nvtx

        domain = nvtx.get_domain(None)  # type: ignore[attr-defined]
        return PipNvtx(nvtx) if hasattr(domain, "push_range") else OldPipNvtx(nvtx)
    except Exception:  # not installed, or of a shape not known: torch is tried
        return None


def _pip_is_sure() -> bool:
    version = pip_nvtx_version()
    return bool(version) and pip_records(version, nsys_version())


def _torch(module: ModuleType) -> TorchNvtx | None:
    nvtx = getattr(getattr(module, "cuda", None), "nvtx", None)
    try:
        nvtx.range_pop()  # type: ignore[union-attr]
        return TorchNvtx(nvtx)  # type: ignore[arg-type]
    except Exception:  # a CPU build
        return None


def _prefer_torch(module: ModuleType) -> None:
    set_out(_torch(module) or out)


def detect(environ: Mapping[str, str] = os.environ) -> None:
    """Set :data:`out` for this process; where pip nvtx may be lost, torch's takes over once torch is imported."""
    asked = environ.get("UNSTALL_NVTX", "")
    if not listening(environ) or asked == "off":
        return
    if asked != "torch":
        set_out(_pip())
    if asked == "torch" or (asked != "pip" and (out is None or not _pip_is_sure())):
        when_imported("torch", _prefer_torch)


out: Sink | None = None


def set_out(sink: Sink | None) -> None:
    """Send ranges to ``sink`` from now on (the built-in collector does)."""
    global out  # noqa: PLW0603 - one a process
    out = sink


detect()
