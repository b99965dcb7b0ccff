"""What a signal to us means while no program runs: before it there is nothing to keep, after it a capture to finish.

Comes in: SIGINT, SIGTERM, SIGHUP. Goes out: a line, or :class:`Interrupted`. While the program runs,
:mod:`unstall.collect.process` has them.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from unstall.collect.notes import Say

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal came and nothing is worth finishing; ``code`` is the exit code that says so."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


class Interrupts:
    """What signals mean while no program runs. Until one has run they end everything at once. Afterwards there is a
    capture to finish: the first is only said, the next gives up what is being done (:class:`Interrupted`)."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._finishing = False
        self._count = 0

    def over(self) -> None:
        """From now on they do nothing: what was begun is being put away."""
        self._count = -1

    def program_started(self) -> None:
        """From now on there is something to keep."""
        self._finishing = True

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """While it runs. Signals that are ignored stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept = {n: signal.signal(n, self._take) for n in ENDING if signal.getsignal(n) is not signal.SIG_IGN}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)

    def _take(self, number: int, _: FrameType | None) -> None:
        if self._count < 0:
            return
        self._count += 1
        if not self._finishing or self._count > 1:
            raise Interrupted(number)
        text = f"{signal.Signals(number).name}: the capture is being finished; once more gives it up"
        threading.Thread(target=self._say, args=[text]).start()  # a handler that prints may have interrupted a print
