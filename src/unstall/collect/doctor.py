"""What can be collected on this machine, what is missing, and the exact command that brings it.

Comes in: a machine, an environment (replaceable, for tests). Goes out: :class:`Doctor`, a record, also as JSON.
Never fails and starts nothing heavy: versions come from package metadata, not from importing torch.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from unstall._version import VERSION
from unstall.collect.machine import Machine, nsys_environment, nvidia_smi, sampling_of
from unstall.collect.options import LOSES_NEW_NVTX, TRUSTED_SAMPLING
from unstall.instrument.sink import NEW_PIP_NVTX
from unstall.lang import speaker
from unstall.nsys import libraries
from unstall.nsys.discover import Nsys, Place, find_ncu, find_nsys

State = Literal["ok", "limited", "missing", "info"]
LOW_DISK_BYTES = (
    2_000_000_000  # a minute of a busy training run is some 100 MB as a stream, three times while exporting
)
INSTALL_NSYS = {
    "debian": "with contrib and non-free in the apt sources: apt-get update && apt-get install -y nsight-systems",
    "ubuntu": "with NVIDIA's CUDA repository enabled: apt-get update && apt-get install -y nsight-systems-cli",
    "fedora": "with NVIDIA's CUDA repository enabled: dnf install -y nsight-systems-cli",
    "suse": "with NVIDIA's CUDA repository enabled: zypper install -y nsight-systems-cli",
    "arch": "pacman -S nsight-systems",
}
DOWNLOAD = (
    "download the CLI from https://developer.nvidia.com/nsight-systems and put nsys on the PATH, or set NSYS to it"
)


@dataclass(frozen=True)
class Check:
    """One thing looked at: how it is, what is lost, what mends it."""

    name: str
    state: State
    text: str
    lost: str = ""
    remedy: str = ""


@dataclass
class Doctor:
    """Everything that was found."""

    unstall: str
    python: str
    system: str
    container: str
    checks: list[Check] = field(default_factory=list)
    collector: str = "builtin"
    collector_auto: str = "builtin"  # with --auto or --steps
    collects: list[str] = field(default_factory=list)
    nsys: list[dict[str, Any]] = field(default_factory=list)
    ncu: list[str] = field(default_factory=list)

    def told(self, language: str) -> Doctor:
        """The record with its texts in ``language``; names and states stay codes."""
        say = speaker(language).heard
        checks = [replace(c, text=say(c.text), lost=say(c.lost), remedy=say(c.remedy)) for c in self.checks]
        return replace(self, checks=checks, collects=[say(what) for what in self.collects])

    def to_json(self) -> str:
        """The record as JSON."""
        return json.dumps({"schema_version": 1, **asdict(self)}, indent=1) + "\n"


def doctor(
    machine: Machine | None = None,
    place: Place | None = None,
    version_of: Callable[[str], str] | None = None,
    ask: Callable[[Nsys], str] = nsys_environment,
    smi: Callable[[], str] = nvidia_smi,
) -> Doctor:
    """Look at everything. Arguments replace what is looked at, for tests; ``ask`` is ``nsys status -e``."""
    machine, place = machine or Machine(), place or Place()
    package = version_of or _package
    tools = find_nsys(place)
    best = next((t for t in tools if not t.error), None)
    record = Doctor(
        unstall=VERSION,
        python=f"{platform.python_version()} ({sys.executable})",
        system=f"{machine.distribution or platform.platform()}, {place.machine}, Linux {platform.release()}",
        container=machine.container,
        nsys=[_row(t) for t in tools],
        ncu=[str(path) for path in find_ncu(place)],
    )
    said = ask(best) if best else ""
    record.checks = [
        *_nsys(tools, best, machine),
        _sampling(best, machine, said),
        _driver(machine, smi),
        _counters(machine),
        _torch(package),
        _nvtx(package, best),
        _ncu(record.ncu),
        _disk(),
    ]
    record.collector = "nsys" if best is not None and best.complete else "builtin"
    deaf = _state(record, "nvtx") == "limited" and _state(record, "GPU") != "ok"
    record.collector_auto = "builtin" if deaf else record.collector
    record.collects = _collects(record, machine, package)
    return record


def _row(tool: Nsys) -> dict[str, Any]:
    return {
        "path": str(tool.path), "version": tool.text, "source": tool.source, "error": tool.error,
        "importer": str(tool.importer) if tool.importer else None,
        "missing_libraries": list(tool.missing) if tool.missing is not None else None, "complete": tool.complete,
    }  # fmt: skip


def _nsys(tools: list[Nsys], best: Nsys | None, machine: Machine) -> list[Check]:
    if best is None:
        lost = "GPU timelines with full detail; the built-in collector records ranges, stacks and, with torch, kernels"
        broken = "".join(f" {t.path} does not run: {t.error}." for t in tools)
        return [Check("nsys", "missing", f"none was found.{broken}", lost, install_nsys(machine))]
    others = [f"{t.text} at {t.path}" for t in tools if t is not best]
    text = f"{best.text} at {best.path} (found by {best.source})"
    text += f"; not used: {', '.join(others)}" if others else ""
    return [Check("nsys", "ok", f"{text}."), _importer(best, machine)]


def _importer(best: Nsys, machine: Machine) -> Check:
    if best.importer is None:
        lost = "its captures stay raw streams (.qdstrm) that only another machine can read"
        return Check("importer", "missing", "nsys came without its QdstrmImporter.", lost, install_nsys(machine))
    if best.missing:
        names = ", ".join(best.missing)
        remedy = libraries.install_command(best.missing, machine.root)
        lost = "reports of this nsys, so the built-in collector is used instead"
        where = f"; or copy them into a folder and set {libraries.EXTRA} to it"
        return Check("importer", "missing", f"{best.importer} lacks {names}.", lost, remedy + where)
    unsure = " (its libraries could not be checked: no ldd)" if best.missing is None else ""
    return Check("importer", "ok", f"{best.importer}{unsure}.")


def install_nsys(machine: Machine) -> str:
    """What brings nsys on this distribution."""
    text = machine.text("etc/os-release")
    exact = re.search(r'^ID="?(\w+)', text, re.MULTILINE)
    names = (exact.group(1) if exact else "", libraries.family(machine.root))
    return next((INSTALL_NSYS[n] for n in names if n in INSTALL_NSYS), DOWNLOAD)


def _sampling(best: Nsys | None, machine: Machine, said: str) -> Check:
    """CPU samples and context switches: kernel, container and version must all allow them."""
    name, lost = (
        "CPU samples",
        "stacks and context switches in nsys captures; ranges, kernels and API calls are not affected",
    )
    level = f"perf_event_paranoid is {'unknown' if machine.paranoid is None else machine.paranoid}"
    level += f", capabilities: {', '.join(machine.capabilities) or 'none of those that matter'}"
    if best is None:
        return Check(name, "info", f"{level}. The built-in collector samples Python stacks without any of them.")
    if machine.may_sample and sampling_of(said) is not False:
        if best.version < TRUSTED_SAMPLING:
            return Check(
                name, "limited", f"{level}; nsys {best.text} may hang with them: off by default.", lost, DOWNLOAD
            )
        return Check(name, "ok", f"{level}.")
    if machine.container == "gvisor":
        return Check(
            name, "limited", "gVisor has no perf_event_open.", lost, "run outside gVisor (docker --runtime runc)"
        )
    if machine.container:
        remedy = "start the container with --cap-add SYS_ADMIN (docker, podman), and on the host: "
        return Check(name, "limited", f"{level}.", lost, f"{remedy}sysctl -w kernel.perf_event_paranoid=2")
    return Check(name, "limited", f"{level}.", lost, "sudo sysctl -w kernel.perf_event_paranoid=2")


def _driver(machine: Machine, ask: Callable[[], str]) -> Check:
    if machine.driver or machine.gpus:
        names = ", ".join(machine.gpus) or "no GPU named"
        if not machine.driver or "nvidia0" in names:  # the driver's files are not there in every container
            names = f"{names}; nvidia-smi: {ask() or 'says nothing'}"
        return Check("GPU", "ok", f"NVIDIA driver {machine.driver or 'of unknown version'}; {names}.")
    remedy = "in docker, start it with --gpus all" if machine.container else ""
    return Check("GPU", "missing", "no NVIDIA driver is visible.", "kernels, copies and CUDA calls", remedy)


def _counters(machine: Machine) -> Check:
    name = "GPU metrics"
    if not (machine.driver or machine.gpus):
        return Check(name, "info", "need a GPU.")
    if machine.counters_restricted and "SYS_ADMIN" not in machine.capabilities:
        remedy = "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d/, then reload the driver"
        return Check(name, "limited", "counters are for administrators only.", "--gpu-metrics; nothing else", remedy)
    known = "allowed" if machine.counters_restricted is not None else "the driver does not say whether they are allowed"
    return Check(name, "ok" if known == "allowed" else "info", f"{known}.")


def _torch(package: Callable[[str], str]) -> Check:
    version = package("torch")
    if not version:
        text = "not installed for this Python (another Python's is found when it runs)."
        return Check(
            "torch", "info", text, "--auto for PyTorch, and kernels in the built-in collector", "pip install torch"
        )
    return Check("torch", "ok", f"{version}{_cuda_of_torch()}.")


def _cuda_of_torch() -> str:
    """The CUDA that torch was built for, from its version file: importing torch takes seconds."""
    try:
        found = [f for f in metadata.files("torch") or [] if str(f).endswith("torch/version.py")]
        text = Path(str(found[0].locate())).read_text() if found else ""
    except (metadata.PackageNotFoundError, OSError):
        return ""
    match = re.search(r"^cuda(?::[^=]+)?\s*=\s*'([^']+)'", text, re.MULTILINE)
    return f", built for CUDA {match.group(1)}" if match else ", built without CUDA"


def _nvtx(package: Callable[[str], str], best: Nsys | None) -> Check:
    version = package("nvtx")
    if not version:
        return Check(
            "nvtx", "missing", "not installed for this Python.", "unstall.annotate under nsys", "pip install nvtx"
        )
    new = tuple(int(n) for n in re.findall(r"\d+", version)[:3]) >= NEW_PIP_NVTX
    if best is not None and new and best.version[:2] <= LOSES_NEW_NVTX:
        text = f"{version}, of which nsys {best.text} records nothing, without a word."
        lost = "every range that pip nvtx writes; without a GPU --auto and --steps use the built-in collector instead"
        return Check("nvtx", "limited", text, lost, "pip install 'nvtx<0.2.12'")
    under = f" records under nsys {best.text}" if best else ""
    return Check("nvtx", "ok", f"{version}{under}.")


def _ncu(paths: list[str]) -> Check:
    if paths:
        return Check("ncu", "ok", f"{paths[0]}.")
    return Check("ncu", "info", "not found; only needed to look inside single kernels.")


def _disk() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:,.1f} GB free in {folder}"
    if free < LOW_DISK_BYTES:
        return Check(
            "disk", "limited", f"{text}.", "long captures", "set TMPDIR to a folder with more space, or use --steps"
        )
    return Check("disk", "ok", f"{text}.")


def _state(record: Doctor, name: str) -> State:
    return next(check.state for check in record.checks if check.name == name)


def _collects(record: Doctor, machine: Machine, package: Callable[[str], str]) -> list[str]:
    """What a run here would hold, in words."""
    gpu = _state(record, "GPU") == "ok"
    if record.collector == "builtin":
        kernels = ["kernels, copies and CUDA calls through torch"] if gpu and package("torch") else []
        return ["NVTX ranges, threads, CPU time, Python stacks", *kernels]
    limited = _state(record, "nvtx") == "limited"
    torch = package("torch") and "without CUDA" not in _cuda_of_torch()
    some = "NVTX ranges of torch, not of pip nvtx" if torch else "NVTX ranges of other libraries, not of pip nvtx"
    found = [some if limited else "NVTX ranges", "OS runtime calls"]
    found += ["kernels, copies, CUDA calls"] if gpu else []
    return found + (["CPU samples, context switches"] if _state(record, "CPU samples") == "ok" else [])


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
