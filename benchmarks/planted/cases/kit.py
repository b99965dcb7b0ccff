"""What every planted script needs to run here: the device, and sizes that shrink for a smoke test on a CPU.

In: ``PLANTED_SMALL=1`` in the environment. Out: :data:`DEVICE` and :func:`size`. No script shares more than this.
"""

import os
from typing import TypeVar

import torch

SMALL = os.environ.get("PLANTED_SMALL") == "1"
DEVICE = torch.device("cpu" if SMALL else "cuda")

T = TypeVar("T")


def size(full: T, small: T) -> T:
    """The real size on a GPU, the other one in a smoke test."""
    return small if SMALL else full
