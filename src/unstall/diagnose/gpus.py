"""What a GPU can do at best, from its name: peaks that turn a kernel's time into a prediction or a verdict.

In: the ``gpus`` table. Out: a :class:`Peaks`. Dense figures without sparsity, from NVIDIA's datasheets and architecture
white papers of each product; the host link is what pinned copies reach in practice (PCIe 3, 4 and 5 ×16: about 12, 25
and 55 of 16, 32 and 64 GB/s a direction), not the bus's nominal rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Peaks:
    """TFLOP/s in fp32 (CUDA cores), TF32 and bf16 (tensor cores; 0 where the GPU has none); memory and link in GB/s.

    ``known`` is false where the name is not in the table and the figures are a cautious guess by compute capability.
    """

    fp32: float
    tf32: float
    bf16: float
    memory: float
    link: float
    known: bool = True


_TABLE: tuple[tuple[str, Peaks], ...] = (
    (r"GB[23]00", Peaks(80, 1250, 2500, 8000, 300)),
    (r"B[23]00", Peaks(75, 1100, 2250, 8000, 55)),
    (r"B100", Peaks(60, 900, 1800, 8000, 55)),
    (r"GH200", Peaks(67, 495, 989, 4000, 300)),
    (r"H200", Peaks(67, 495, 989, 4800, 55)),
    (r"H100.*NVL", Peaks(60, 418, 835, 3900, 55)),
    (r"H100.*PCIe", Peaks(51, 378, 756, 2000, 55)),
    (r"H[18]00", Peaks(67, 495, 989, 3350, 55)),
    (r"\bH20\b", Peaks(44, 74, 148, 4000, 55)),
    (r"A[18]00", Peaks(19.5, 156, 312, 1935, 25)),
    (r"A30\b", Peaks(10.3, 82, 165, 933, 25)),
    (r"A40\b", Peaks(37.4, 74.8, 150, 696, 25)),
    (r"A10G?\b", Peaks(31.2, 62.5, 125, 600, 25)),
    (r"RTX A6000", Peaks(38.7, 77.4, 155, 768, 25)),
    (r"RTX 6000 Ada", Peaks(91.1, 182, 364, 960, 25)),
    (r"L40S", Peaks(91.6, 183, 362, 864, 25)),
    (r"L40\b", Peaks(90.5, 90.5, 181, 864, 25)),
    (r"\bL4\b", Peaks(30.3, 60, 121, 300, 25)),
    (r"RTX 50\d0", Peaks(105, 105, 210, 1792, 55)),
    (r"RTX 40\d0", Peaks(82.6, 82.6, 165, 1008, 25)),
    (r"RTX 30\d0", Peaks(35.6, 35.6, 71, 936, 25)),
    (r"V100", Peaks(15.7, 0, 0, 900, 12)),
    (r"\bT4\b|RTX 20\d0|TITAN RTX", Peaks(8.1, 0, 0, 320, 12)),
    (r"P100", Peaks(9.3, 0, 0, 732, 12)),
)
_UNKNOWN = {
    # The least that a product of each generation offers over its own fp32 rate, so that a guess never overstates.
    10: Peaks(60, 120, 240, 1000, 25, known=False),
    9: Peaks(44, 74, 148, 2000, 25, known=False),
    8: Peaks(20, 40, 80, 600, 12, known=False),
}
_OLD = Peaks(8, 0, 0, 300, 12, known=False)


def peaks(gpus: pl.DataFrame | None, device: int | None) -> Peaks:
    """The peaks of a device; a cautious guess where the capture does not name it."""
    rows = None if gpus is None or device is None else gpus.filter(pl.col("device") == device)
    if rows is None or not rows.height:
        return _UNKNOWN[8]
    name = str(rows["name"][0] or "")
    found = named(name)
    if found is not None:
        return found
    major = rows["compute_major"][0]
    return _UNKNOWN.get(min(int(major), 10), _OLD) if major is not None else _UNKNOWN[8]


def name_of(gpus: pl.DataFrame | None, device: int | None) -> str:
    """The device's name; ``the GPU`` where unknown."""
    rows = None if gpus is None or device is None else gpus.filter(pl.col("device") == device)
    name = None if rows is None or not rows.height else rows["name"][0]
    return str(name) if name else "the GPU"


def named(name: str) -> Peaks | None:
    """The peaks of a product by its name; ``None`` where it is not in the table."""
    return next((p for pattern, p in _TABLE if re.search(pattern, name)), None)
