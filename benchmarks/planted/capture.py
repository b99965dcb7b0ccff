"""Runs the cases under Nsight Systems on a GPU, one at a time; only starting up and shutting down overlap.

In: cases, a folder, the profiler's options. Out: raw captures (``.qdstrm`` or ``.nsys-rep``) and the workers' timings.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog import VARIANTS, Planted

HERE = Path(__file__).parent
OPTIONS = (
    "--sample=none --cpuctxsw=none --capture-range=cudaProfilerApi --capture-range-end=stop --wait=primary "
    "--force-overwrite=true"
)
TRACE = "cuda,nvtx,osrt"
SECONDS = 150  # of one job, its wait for the GPU included: alone the slowest takes about 15
INSIDE_COMPUTE = "/opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys"


@dataclass
class Job:
    """One capture: a case and a variant. ``raw`` and ``truth`` are set when it has run; ``said`` tells why not."""

    case: Planted
    variant: str
    raw: Path | None = None
    truth: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.case.name}.{self.variant}"

    @property
    def done(self) -> bool:
        return self.raw is not None and bool(self.truth)


@dataclass(frozen=True)
class Runner:
    """How to run a job: the profiler, its options, where files go, and until when jobs may start."""

    nsys: str
    room: Path
    until: float
    options: str = OPTIONS
    trace: str = TRACE

    def __call__(self, job: Job) -> Job:
        if time.monotonic() > self.until:
            job.said = "no time left"
            return job
        begin, base, out = time.monotonic(), self.room / job.name, self.room / f"{job.name}.json"
        trace = ",".join(filter(None, (self.trace, job.case.trace)))
        command = [self.nsys, "profile", f"--trace={trace}", *self.options.split(), "-o", str(base)]
        command += [sys.executable, str(HERE / "worker.py"), job.case.name, job.variant, str(out)]
        job.said = run_bounded(command, {**os.environ, "PLANTED_LOCK": str(self.room / "gpu.lock")})
        job.raw = _found(base, job.said)
        job.truth = json.loads(out.read_text()) if out.exists() else {}
        job.seconds = time.monotonic() - begin
        times = " ".join(f"{k}={v:.2f}" for k, v in job.truth.items() if k.endswith("_ms") and isinstance(v, float))
        print(f"{job.name:34} {job.seconds:5.1f} s  {times or job.said[-1500:]}", flush=True)
        if job.raw is None and job.truth:
            print(f"  no capture: {job.said[-600:]}", flush=True)
        return job


def run_bounded(command: list[str], environ: dict[str, str]) -> str:
    """What a command printed; it and its children end after :data:`SECONDS`."""
    environ = {k: v for k, v in environ.items() if k != "PYTHONPATH"} | {"PYTHONUNBUFFERED": "1"}
    program = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        return program.communicate(timeout=SECONDS)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        try:
            said = program.communicate(timeout=10)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            said = ""  # a child outside the group still holds the pipe
        return f"{said}\nended after {SECONDS} s"


def capture_all(cases: Iterable[Planted], runner: Runner, at_once: int = 2) -> list[Job]:
    """Every case and variant; those that failed get a second chance, alone."""
    jobs = [Job(case, variant) for case in cases for variant in VARIANTS]
    with ThreadPoolExecutor(at_once) as pool:
        jobs = list(pool.map(runner, jobs))
    return [job if job.done else runner(job) for job in jobs]


def find_profiler() -> str:
    """The best nsys of this machine."""
    from unstall.nsys.discover import find_nsys

    return next((str(n.path) for n in find_nsys() if not n.error), INSIDE_COMPUTE)


def _found(base: Path, said: str) -> Path | None:
    """The report, or the raw stream where nsys could not import it; nsys may have put it elsewhere, and says so."""
    named = [Path(p) for p in re.findall(r"(/\S+\.(?:nsys-rep|qdstrm))", said)]
    candidates = [base.with_name(f"{base.name}{end}") for end in (".nsys-rep", ".qdstrm")]
    return next((p for p in (*candidates, *named) if p.is_file() and p.stat().st_size), None)
