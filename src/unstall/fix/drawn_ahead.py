"""Batches drawn in a thread and copied ahead on a side stream: what ``unstall.prefetch`` does."""

from __future__ import annotations

from typing import Any

from unstall.fix import ahead
from unstall.fix.prefetch import _CudaMover, _Mover
from unstall.fix.remedy import Remedy


def switch(torch: Any) -> None:
    """Every ``DataLoader`` draws ahead, and to the current GPU where there is one."""
    movers: list[_Mover] = []

    def mover() -> _Mover:
        if not movers:
            gpu = torch.cuda.is_available()
            movers.append(_CudaMover(torch, torch.device("cuda", torch.cuda.current_device())) if gpu else _Mover())
        return movers[0]

    ahead.install(torch, lambda batch: mover().send(batch), lambda sent: mover().hand_over(sent))


REMEDY = Remedy(
    name="prefetch",
    title="Draw and copy the next batch meanwhile",
    write="for x, y in unstall.prefetch(loader, device=device):",
    codes=("host-data-loading", "pageable-copy", "exposed-copy"),
    redraws=True,
    lead=ahead.DEPTH,
    switch=switch,
)
