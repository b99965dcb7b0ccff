"""Batches drawn in a thread and copied ahead on a side stream: what ``unstall.prefetch`` does."""

from __future__ import annotations

from typing import Any

from unstall.fix import ahead
from unstall.fix.prefetch import _CudaMover, _Mover
from unstall.fix.remedy import Remedy


def switch(torch: Any) -> None:
    """Every ``DataLoader`` draws ahead, and to the current GPU where there is one."""

    def mover() -> _Mover:
        gpu = torch.cuda.is_available()
        return _CudaMover(torch, torch.device("cuda", torch.cuda.current_device())) if gpu else _Mover()

    ahead.install(torch, mover)


REMEDY = Remedy(
    name="prefetch",
    title="Draw and copy the next batch meanwhile",
    write="for x, y in unstall.prefetch(loader, device=device):",
    codes=("host-data-loading", "pageable-copy", "exposed-copy"),
    redraws=True,
    lead=ahead.DEPTH,
    switch=switch,
)
