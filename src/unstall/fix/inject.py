"""Inside the program that is tried: switch remedies on, make runs comparable, and end after so many steps.

In: environment variables set by :mod:`unstall.trial`. Out: torch with the remedies in it; ``SystemExit`` raised in the
training loop once it has taken enough steps, so that the program ends in its own way (``finally``, ``with``, exit
functions). Called through ``UNSTALL_PLUGINS`` before the program's first line.

===================== ==========================================================================================
``UNSTALL_TRIAL``     names of the remedies to switch on, comma separated
``UNSTALL_TRIAL_END`` ``STEPS:SECONDS:LEAD``: end after that many steps, or after that long once :data:`ENOUGH` are
                      done besides the first LEAD
===================== ==========================================================================================
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from functools import partial
from types import ModuleType
from typing import Any

from unstall.fix.remedy import named
from unstall.instrument import steps
from unstall.instrument.importhook import when_imported

PLUGIN = "unstall.fix.inject:start"
TRIAL = "UNSTALL_TRIAL"
END = "UNSTALL_TRIAL_END"
SEED = 20240601

ENOUGH = 15
"""Steps before time may end a run: 5 of warm-up and 10 to take a median of."""


def start(options: Any) -> None:
    """Before the program's first line."""
    random.seed(SEED)
    when_imported("numpy", _seed_numpy)
    when_imported("torch", _seed_torch)
    for remedy in named([n for n in os.environ.get(TRIAL, "").split(",") if n]):
        if remedy.switch is not None:
            when_imported("torch", partial(_switch, remedy.name, remedy.switch))
    when_imported("torch._dynamo.decorators", _hide)
    if os.environ.get(END):
        _limit(*(float(n) for n in os.environ[END].split(":")))


def _seed_numpy(numpy: ModuleType) -> None:
    numpy.random.seed(SEED % 2**32)


def _seed_torch(torch: ModuleType) -> None:
    """A script that sets no seed trains differently in each run; one that does overrides this."""
    torch.manual_seed(SEED)


def _switch(name: str, switch: Any, torch: ModuleType) -> None:
    """A remedy that cannot be switched on must fail the run: measuring without it would be a lie."""
    try:
        switch(torch)
    except Exception as error:
        sys.stderr.write(f"unstall: {name} cannot be switched on: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(70)


def _hide(decorators: Any) -> None:
    """Keep torch.compile from tracing our wrappers: it steps over them and compiles what they call."""
    from unstall.instrument.compiled import _codes

    for name, module in list(sys.modules.items()):
        if name.startswith("unstall.fix"):
            for value in list(vars(module).values()):
                for code in _codes(value, name):
                    decorators.skip_code(code)


def _limit(count: float, seconds: float, lead: float) -> None:
    """End the program at the border of a step."""
    original = steps.StepClock.tick
    begun: list[float] = []

    def tick(self: steps.StepClock, index: int) -> None:
        if not begun:
            begun.extend([index, time.monotonic()])
        done = index - begun[0]
        if done >= count or (done >= ENOUGH + lead and time.monotonic() - begun[1] >= seconds):
            self.pause(done=True)
            _leave()
        original(self, index)

    steps.StepClock.tick = tick  # type: ignore[method-assign]


def _leave() -> None:
    if threading.current_thread() is threading.main_thread():
        raise SystemExit(0)
    os.kill(os.getpid(), signal.SIGINT)
