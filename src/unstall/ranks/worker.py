"""The process that reads captures, one after another: ``python -m unstall.ranks.worker``.

In: on standard input, one JSON line a request. Out: on standard output, for each a length in eight bytes and that many
bytes of :mod:`unstall.ranks.summary`'s MessagePack. It ends when its input does, whatever it is doing: nobody waits for
the answer then. What anything else prints goes to standard error.

A plain program instead of a forked or pickled one: it does not run the caller's script again, so a script without
``if __name__ == "__main__"``, a notebook and a pipe may all use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

ROOM = "UNSTALL_RANKS_ROOM"
"""Variable with the folder of all temporary files of this run, which whoever ends last removes."""


def answer(request: dict[str, Any]) -> bytes:
    """Read what the request names; see :func:`unstall.ranks.summary.summarise`."""
    from unstall.errors import UnstallError
    from unstall.ranks.places import fetched, is_address
    from unstall.ranks.summary import FileSummary, encode, summarise

    name = request["file"]
    try:
        with fetched(name) as path:
            cache = bool(request["cache"]) and not is_address(name)
            return encode(summarise(path, name, step=request["step"], cache=cache))
    except UnstallError as error:
        return encode(FileSummary(file=name, error=str(error)))


def main() -> None:
    """Serve requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for request in _requests(sys.stdin.buffer):
        data = answer(request)
        with contextlib.suppress(BrokenPipeError):
            out.write(len(data).to_bytes(8, "little") + data)
            out.flush()


def _requests(source: BinaryIO) -> Iterator[dict[str, Any]]:
    """Requests as they come; the process ends with its parent, even in the middle of one."""
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in source:
            waiting.put(line)
        _end()

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(waiting.get())


def _end() -> None:
    """With all that was started (nsys, to convert a report): the parent gave this process a group of its own."""
    if os.environ.get(ROOM):
        shutil.rmtree(os.environ[ROOM], ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
