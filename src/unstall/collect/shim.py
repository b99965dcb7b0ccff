"""The last thing between a profiler and the program: becomes the program. Run as a script, never imported.

Comes in: ``{"file": …, "environ": {…}}`` as JSON and the program's command. Goes out: the program in this very process,
its number written to ``file`` so that the supervisor knows it.

The program gets our own standard streams where they were handed down (nsys puts a pipe between, which makes Python
buffer in blocks, and stores what went through in the report), the variables of its environment that were changed for
the profiler's sake, and the signals that are kept from the profiler (see ``supervise.py``).
Standard library only, run with ``-I -S``.
"""

from __future__ import annotations

import json
import os
import signal
import sys

STDIO = 7  # where supervise.py puts our standard streams: 7, 8, 9
HELD = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main(order: str, command: list[str]) -> None:
    """Become ``command``."""
    asked = json.loads(order)
    how = "direct" if _exists(STDIO + 2) else "piped"
    with open(asked["file"], "w") as file:  # noqa: PTH123
        file.write(f"{os.getpid()} {how}\n")
    for stream in range(3) if how == "direct" else ():
        os.dup2(STDIO + stream, stream)
        os.close(STDIO + stream)
    environ = {**os.environ, **asked["environ"]}
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    os.execvpe(command[0], command, {name: value for name, value in environ.items() if value is not None})


def _exists(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"{sys.argv[2]}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
