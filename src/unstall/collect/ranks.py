"""Which of many ranks this process is, as torchrun, MPI or SLURM tell it.

Comes in: an environment. Goes out: :class:`Rank`, or ``None`` for a run of one. Each rank gets a capture of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

# rank, size of the world: by launcher, the most specific first; SLURM sets its variables also around torchrun and MPI
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
)
VARIABLES = tuple(name for pair in LAUNCHERS for name in pair)
JOBS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PBS_JOBID", "LSB_JOBID")
"""What all ranks of one job have in common, on every node."""


@dataclass(frozen=True)
class Rank:
    """Number of this process; ``job`` is the same in all ranks of one job, empty when the launcher does not name it."""

    number: int
    job: str = ""


def called(words: Sequence[str]) -> str:
    """What a process of a job is called for people: its script, its module, its program."""
    script = next((PurePath(w).name for w in words if w.endswith(".py")), "")
    module = next((words[i + 1] for i, w in enumerate(words[:-1]) if w == "-m"), "")
    return script or module or PurePath(words[0]).name if words else ""


def several(ranks: Mapping[int, tuple[str, int]]) -> dict[int, tuple[str, int]]:
    """Processes with their names and ranks, where there are several ranks; empty otherwise."""
    return dict(ranks) if len({rank for _, rank in ranks.values()}) > 1 else {}


def named(ranks: Mapping[int, tuple[str, int]]) -> dict[int, str]:
    """Process → name with its rank, by which :mod:`unstall.ranks` tells them apart."""
    return {pid: f"{name} rank {rank}" for pid, (name, rank) in ranks.items()}


def rank_of(environ: Mapping[str, str] | None = None) -> Rank | None:
    """The rank, ``None`` when there is one process only."""
    env = os.environ if environ is None else environ
    for name, size in LAUNCHERS:
        if env.get(name, "").isdigit() and env.get(size, "") != "1":
            job = next((env[j] for j in JOBS if env.get(j, "none") != "none"), "")
            return Rank(int(env[name]), job)
    return None
