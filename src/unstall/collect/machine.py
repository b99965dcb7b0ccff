"""What this machine allows: GPU driver, CPU sampling, container, GPU counters.

Comes in: a file system's root (replaceable, for tests). Goes out: facts, each ``None`` or empty where it cannot be
told. Reads files only, but for :func:`nsys_environment`, which asks nsys itself.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from unstall.nsys.ask import ask
from unstall.nsys.discover import Nsys

CAPABILITIES = {"SYS_ADMIN": 21, "PERFMON": 38, "SYS_PTRACE": 19}  # bits of linux/capability.h
PARANOID_FOR_SAMPLES = 2  # above it, Linux refuses perf_event_open without a capability


@dataclass(frozen=True)
class Machine:
    """The file system of one machine."""

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """A file's text, empty when it is not there."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    @property
    def paranoid(self) -> int | None:
        """``perf_event_paranoid``."""
        text = self.text("proc/sys/kernel/perf_event_paranoid").strip()
        return int(text) if re.fullmatch(r"-?\d+", text) else None

    @property
    def capabilities(self) -> list[str]:
        """Those of ours that matter to a profiler."""
        match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", self.text("proc/self/status"), re.MULTILINE)
        bits = int(match.group(1), 16) if match else 0
        return [name for name, bit in CAPABILITIES.items() if bits >> bit & 1]

    @property
    def container(self) -> str:
        """``docker``, ``podman``, ``kubernetes``, ``gvisor``, ``wsl`` or another word; empty outside."""
        if "gvisor" in self.text("proc/version").lower() or "gvisor" in self.text("proc/sys/kernel/osrelease").lower():
            return "gvisor"
        if (self.root / ".dockerenv").exists():
            return "docker"
        if (self.root / "run/.containerenv").exists():
            return "podman"
        if "microsoft" in self.text("proc/version").lower():
            return "wsl"
        match = re.search(r"kubepods|docker|lxc|libpod", self.text("proc/1/cgroup"))
        return {"kubepods": "kubernetes", "libpod": "podman"}.get(match.group(0), match.group(0)) if match else ""

    @property
    def distribution(self) -> str:
        """For instance ``Debian GNU/Linux 12 (bookworm)``."""
        match = re.search(r'^PRETTY_NAME="?([^"\n]*)', self.text("etc/os-release"), re.MULTILINE)
        return match.group(1) if match else ""

    @property
    def driver(self) -> str:
        """Version of the NVIDIA driver; empty without one."""
        match = re.search(r"Module\s+(?:for \S+\s+)?(\d+\.[\d.]+)", self.text("proc/driver/nvidia/version"))
        return match.group(1) if match else self.text("sys/module/nvidia/version").strip()

    @property
    def gpus(self) -> list[str]:
        """Names of the GPUs as the driver's files tell them; a device file where they do not."""
        texts = [self.text(str(p.relative_to(self.root))) for p in self._glob("proc/driver/nvidia/gpus/*/information")]
        names = [m.group(1).strip() for t in texts if (m := re.search(r"^Model:\s*(.+)$", t, re.MULTILINE))]
        devices = [p.name for p in self._glob("dev/nvidia[0-9]*")] or [p.name for p in self._glob("dev/dxg")]
        return names or devices

    @property
    def counters_restricted(self) -> bool | None:
        """Whether GPU counters are for administrators only; ``None`` where the driver does not tell."""
        match = re.search(r"RmProfilingAdminOnly:\s*(\d)", self.text("proc/driver/nvidia/params"))
        return match.group(1) == "1" if match else None

    @property
    def may_sample(self) -> bool:
        """Whether the kernel lets us take CPU samples, as far as files tell."""
        if self.container == "gvisor":
            return False  # it has no perf_event_open
        allowed = bool({"SYS_ADMIN", "PERFMON"} & set(self.capabilities))
        return self.paranoid is not None and (self.paranoid <= PARANOID_FOR_SAMPLES or allowed)

    def _glob(self, pattern: str) -> list[Path]:
        try:
            return sorted(self.root.glob(pattern))
        except OSError:
            return []


def nsys_environment(nsys: Nsys) -> str:
    """What ``nsys status -e`` prints; its exit code is 0 whatever it finds, so the text counts."""
    return _said([str(nsys.path), "status", "-e"])


def nvidia_smi() -> str:
    """Names of the GPUs and version of the driver, as nvidia-smi tells them."""
    text = _said(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())[:300]


def _said(command: list[str]) -> str:
    """All that a command prints; nothing when it does not run to its end."""
    return ask(command, {**os.environ, "LC_ALL": "C"}).text


def sampling_of(text: str) -> bool | None:
    """Whether ``nsys status -e`` says that CPU sampling of a process tree works; ``None`` when it does not say."""
    match = re.search(r"^CPU Profiling Environment \(process-tree\):\s*(\w+)", text, re.MULTILINE)
    return match.group(1).upper() == "OK" if match else None


def sampling_allowed(nsys: Nsys, machine: Machine) -> bool:
    """Whether CPU samples can be taken here with this nsys."""
    return machine.may_sample and sampling_of(nsys_environment(nsys)) is not False
