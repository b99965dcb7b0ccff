"""How to collect what a capture lacks, in the terms of the profiler that made it.

In: a table of the model and the capture. Out: the way to have it next time. Rules and the report's sections
say what it would tell; this says how to get it.
"""

from __future__ import annotations

import re

from unstall.model import CUDA_LOST, CUDA_TABLES, Profile

NSYS_ONLY = "PyTorch's profiler does not record them; `unstall run -- python train.py` does, with nsys"
KINETO = {
    "kernels": "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a GPU",
    "copies": "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a GPU",
    "api": "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    "ranges": "collect with ProfilerActivity.CPU, call prof.step() once a step, name phases with record_function",
    "samples": "collect with with_stack=True (slow), or `unstall run -- python train.py`",
    "osrt": NSYS_ONLY,
    "gil": NSYS_ONLY,
    "gpu_metrics": NSYS_ONLY,
}

WITH_NSYS = "the built-in collector does not record them; `unstall run` does where nsys is (see `unstall doctor`)"
OF_TORCH = "the built-in collector sees those of torch on a machine with a GPU, nsys all (see `unstall doctor`)"
BUILTIN = {
    "kernels": OF_TORCH,
    "copies": OF_TORCH,
    "api": OF_TORCH,
    "osrt": WITH_NSYS,
    "gil": WITH_NSYS,
    "gpu_metrics": WITH_NSYS,
    "ranges": "annotate the program (unstall.annotate), or `unstall run --auto` for a script without ranges",
    "samples": "the program ended before the first sample was due",
}
OTHERS = {"kineto": KINETO, "unstall": BUILTIN}


IN_CELL = ("`unstall run --auto`", "`%%unstall --auto`")  # a notebook's cell has a command of its own
TRACED = "traced, and none seen: the program made no CUDA call, or there is no GPU (see the warnings)"
BUILTIN_SAMPLES = "`unstall run --collector builtin`"
HUNG = f"this nsys may hang with them; a newer one (2023.1 or later) collects them, or {BUILTIN_SAMPLES}"
SAMPLES = "collect with `--sample=process-tree` where the kernel allows it"
OF_NSYS = (
    ((2023, 1), SAMPLES),
    ((1,), HUNG),  # ``unstall run`` does not ask such an nsys for samples by itself (collect's TRUSTED_SAMPLING)
    ((), f"collect with {BUILTIN_SAMPLES}"),  # of one of no known version, nobody knows
)
"""Since which version of nsys, the newest first: how it collects CPU samples. Python's own stacks come with them, from
2023.4 on: ``unstall run`` asks for those by itself, and has no option for it."""
LOST = "nsys lost most CUDA events (see the warnings)"


def in_terms_of(profile: Profile, table: str, reason: str) -> str:
    """``reason`` (what is missing: how nsys collects it) with the way that the capture's own profiler offers; what was
    collected and then lost, or was looked for and not seen, with that."""
    if _looked_for(profile, table):
        return f"{reason.partition(':')[0].partition(',')[0]}: {TRACED}"
    lost = table in CUDA_TABLES and any(note.code == CUDA_LOST for note in profile.notes)
    other = LOST if lost else _samples(profile, table) or OTHERS.get(profile.meta.producer, {}).get(table)
    return in_place_of(profile, reason if other is None else reason.partition("collect with")[0] + other)


def _looked_for(profile: Profile, table: str) -> bool:
    """CUDA was traced, as the capture's own options say, and the whole of it is empty."""
    asked = table in CUDA_TABLES and "cuda" in profile.meta.options.get("trace", "").split(",")
    return asked and all(profile.table(t) is None for t in CUDA_TABLES)


def _samples(profile: Profile, table: str) -> str | None:
    """How the nsys that made the capture takes CPU samples; ``None`` of another table or another profiler."""
    if table != "samples" or profile.meta.producer != "nsys":
        return None
    version = tuple(int(n) for n in re.findall(r"\d+", profile.meta.producer_version)[:2])
    return next(way for since, way in OF_NSYS if version >= since)


def in_place_of(profile: Profile, text: str) -> str:
    """``text`` with the commands that there are where the capture was made."""
    return text.replace(*IN_CELL) if "cell" in profile.meta.options else text
