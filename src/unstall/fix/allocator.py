"""An allocator that grows its segments instead of returning memory and asking for it again."""

from __future__ import annotations

from unstall.fix.remedy import Remedy

VALUE = "expandable_segments:True"

REMEDY = Remedy(
    name="expandable-segments",
    title="Expandable memory segments",
    write=f"PYTORCH_CUDA_ALLOC_CONF={VALUE}  # in the environment",
    codes=("allocator-churn",),
    needs="cuda",
    aliases=("allocator",),
    environ={"PYTORCH_CUDA_ALLOC_CONF": VALUE},
)
