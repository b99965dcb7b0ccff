"""The process between us and what we start, so that nothing of it outlives us. Run as a script, never imported.

Comes in: on the control pipe one line of JSON (:class:`Order`), then one word a line: ``INT``, ``TERM``, ``KILL``.
Goes out: on the status pipe one JSON object a line (``program``, ``program-ended``, ``profiler-ended``, ``limit``,
``stuck``, ``ended``).

nsys starts an agent that turns into a daemon: a new session, its parent gone. Process groups and death signals miss it.
So this process calls itself the *child subreaper*: whatever loses its parent anywhere below becomes its child, and
``/proc`` shows the whole tree. The control pipe closes when we die, however we die; then the tree is killed and the
files of the unfinished run are removed. It has its own session, so that a Ctrl-C on the terminal and a signal to our
process group reach only us, and we decide what becomes of it.

A batch system signals every process there is. An nsys that gets SIGTERM or SIGINT loses its capture; so it is started
with those blocked, which it and its agent leave as they are (seen: 2022.4.2), and only the program, unblocked by
``shim.py``, hears them.

Profiler's processes are those whose executable lies in the profiler's folders or in one called like them (an ``nsys``
may be a wrapper script), the others are the program's.
Standard library only, run with ``-I -S``: it starts in 20 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
TICK = 0.2  # seconds between two looks at the tree; an exit is noticed at once, by SIGCHLD
LOOK = 1.0  # seconds between two looks for new worker processes of the program
PROGRAM_LINGERS = 2.0  # what a program left behind gets SIGTERM, and this long to obey
MARK = "UNSTALL_RUN"  # in the environment of everything below one supervisor
STDIO = 7  # our standard streams, for a program that shall have them and not the profiler's: 7, 8, 9
PROFILER = ("/nsight-systems", "/nsight-compute", "/target-linux-", "/host-linux-", "/linux-desktop-glibc")
ABOVE = 20  # our own pipes are moved up here, out of the way
UNHURRIED = 30.0  # what a program may take to end (to save itself, say) where nobody waits for it but us
TOGETHER = 0.05  # seconds within which a signal to everybody has reached everybody
HELD = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
IDLE_BYTES = 1 << 16  # a second: an agent that is stuck reads 20 kB/s at 1 % of a CPU, importing moves megabytes
FACTS = ("cmdline", "environ")
STATUS = 50  # fields of /proc/PID/stat behind the name; the last is the wait status, 0 for those who may not see it
BUSY = 5  # a fifth of a CPU is not idle; one that hung was seen spinning with three times as much system as user time


class Order:
    """What is to be run: attributes are the keys of the JSON line.

    ``command``, ``out`` and ``err`` (files for its output, null to inherit ours), ``folders`` of the profiler (empty:
    the command is the program itself), ``shim`` (file in which the program's pid appears), ``patience`` (seconds that
    the profiler may do nothing after the program has ended), ``linger`` (seconds that its daemons may take to leave),
    ``grace`` (seconds after ``TERM``), ``remove`` (paths to delete when we die), ``parent`` (our pid), ``environ``
    (variables that Python changes at its start, as they were; null: unset), ``shielded`` (signals are kept from the
    command), ``lasting`` (the program may go on when its profiler has ended), ``limit`` (null, or when to end the
    program: ``seconds`` after ``begin`` on the monotonic clock, or after a file that begins with ``mark`` appeared),
    ``launchers`` (variables by which a launcher numbers its processes).
    """

    command: list[str]
    out: str | None
    err: str | None
    folders: list[str]
    shim: str
    patience: float
    linger: float
    grace: float
    remove: list[str]
    parent: int
    environ: dict[str, str | None]
    shielded: bool
    lasting: bool
    limit: dict[str, Any] | None
    launchers: list[str]

    def __init__(self, line: str) -> None:
        self.__dict__.update(json.loads(line))


class Supervisor:
    """Starts the command, passes signals on, notices its end, and leaves nothing behind."""

    def __init__(self, control: int, status: int) -> None:
        self.control, self.status = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE) for fd in (control, status))
        os.close(control)
        os.close(status)
        self.buffer = b""
        self.order = Order(self._first_line())
        self.codes: dict[int, int] = {}  # every process reaped here → its exit code, shell style
        self.program = 0
        self.launcher = 0  # the profiler's process that waits for the program; it ends with the program's code
        self.ended_at = 0.0
        self.seen: dict[int, str] = {}  # processes of the program that lived for a while
        self.launched: dict[int, tuple[list[str], dict[str, str]]] = {}  # command, variables of a launcher
        self.kill_at = 0.0
        self.active = 0.0  # when the profiler last did something
        self.moved = (0.0, 0)  # when that was looked at, and how much it had done
        self.orphaned = False
        self.alone = False  # the profiler has ended and the program has not
        self.hit = 0.0  # when a SIGINT reached ourselves
        self.forced: set[int] = set()  # killed by us

    def run(self) -> None:
        """Until the command has ended and nothing below is alive."""
        wake, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._signalled)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)  # our parent blocked them until now
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
        if os.getppid() != self.order.parent:
            return  # we are dead already, and nothing has been started
        child = self._start()
        stuck = False
        while not self.orphaned and not self._is_over(child):
            ready = select.select([self.control, wake], [], [], TICK)[0]
            if wake in ready:
                os.read(wake, 4096)
            if self.control in ready:
                self._obey()
            self._reap()
            self._watch()
            if self._is_stuck():
                stuck = True
                self._say(event="stuck")
                break
        self._finish(child, stuck)

    def _start(self) -> int:
        """The command, with default signal handling (handlers of ours do not survive the exec)."""
        for stream in range(3) if self.order.folders else ():
            os.dup2(stream, STDIO + stream, inheritable=True)
        out = open(self.order.out, "wb") if self.order.out else None  # noqa: PTH123, SIM115
        same = self.order.err == self.order.out
        err = out if same else open(self.order.err, "wb") if self.order.err else None  # noqa: PTH123, SIM115
        environ = {name: value for name, value in {**os.environ, **self.order.environ}.items() if value is not None}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD if self.order.shielded else ())
        try:
            child = subprocess.Popen(self.order.command, stdout=out, stderr=err, close_fds=False, env=environ)
        except OSError as error:
            self._say(event="ended", code=127 if isinstance(error, FileNotFoundError) else 126, error=str(error))
            sys.exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        child.returncode = 0  # reaped here, not by the module
        self.active = time.monotonic()
        if not self.order.folders:
            self._found(child.pid, "direct")
        for stream in range(3) if self.order.folders else ():
            os.close(STDIO + stream)
        return child.pid

    def _is_over(self, child: int) -> bool:
        """Whether there is nothing left to wait for. A profiler may end before the program: it may have been killed,
        or it has captured for as long as it was told, and asked the program to end."""
        if child not in self.codes:
            return False
        if not (self.program and _alive(self.program)):
            return True
        if not self.alone:
            self.alone = True
            self._say(event="profiler-ended", code=self.codes[child])
            self.kill_at = self.kill_at or (0.0 if self.order.lasting else time.monotonic() + UNHURRIED)
        return False

    def _finish(self, child: int, stuck: bool) -> None:
        """Sweep, then tell how it ended."""
        scratch = self._open_files() if stuck or self.orphaned else []
        left = self._sweep(at_once=stuck or self.orphaned)
        for path in [*scratch, *(self.order.remove if self.orphaned else [])]:
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else _unlink(path)  # noqa: PTH112
        self._say(
            event="ended",
            code=self.codes.get(child, 137),
            program_code=self._program_code(),
            left=left,
            seen=self.seen,
            launched=self.launched,
        )

    def _program_code(self) -> int | None:
        """Of the program where it was our own child in the end, else what its launcher says, unless we killed that."""
        told = None if self.launcher in self.forced else self.codes.get(self.launcher)
        return self.codes.get(self.program, told)

    # ---------------------------------------------------------------- what is asked of us

    def _first_line(self) -> str:
        while b"\n" not in self.buffer:
            piece = os.read(self.control, 1 << 16)
            if not piece:
                sys.exit(0)
            self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def _obey(self) -> None:
        piece = os.read(self.control, 1 << 16)
        if not piece:
            self.orphaned = True
            return
        self.buffer += piece
        *words, self.buffer = self.buffer.split(b"\n")
        for word in words:
            self._stop(word.decode())

    def _signalled(self, number: int, _: Any) -> None:
        """Our parent decides. In a session of our own we are hit only where everybody is, and then the program is."""
        if number == signal.SIGHUP and os.getppid() != self.order.parent:
            self.orphaned = True
        elif number == signal.SIGINT:
            self.hit = time.monotonic()

    def _stop(self, word: str) -> None:
        """End the program; the profiler then finishes by itself. Before the program has started, end the profiler."""
        if word == "KILL" or not self.program:
            _send(signal.SIGKILL, self._ours("program") if self.program else self._tree())
        elif word == "INT":  # what a terminal does: to every process of the program's group, once
            time.sleep(TOGETHER)
            if time.monotonic() - self.hit > 2 * TOGETHER:
                _send(signal.SIGINT, [p for p in self._ours("program") if _group(p) == _group(self.program)])
        else:
            _send(signal.SIGTERM, [self.program])
            self.kill_at = time.monotonic() + self.order.grace

    # ---------------------------------------------------------------- what we see

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            self.codes[pid] = code if code >= 0 else 128 - code

    def _watch(self) -> None:
        """Find the program, notice its end, remember its workers."""
        now = time.monotonic()
        if not self.program and self.order.shim:
            with contextlib.suppress(OSError, ValueError):
                pid, how = Path(self.order.shim).read_text().split()
                self._found(int(pid), how)
        if self.program and not self.ended_at and not _alive(self.program):
            self.ended_at = now
            self.active = now
            with contextlib.suppress(OSError, ValueError, IndexError):  # not yet reaped by a launcher that may hang
                self.codes[self.program] = _code_of_zombie(self.program)
            self._say(event="program-ended")
        if self.program and not self.ended_at and now - self.looked >= LOOK:
            self.looked = now
            ours = self._ours("program")
            self.seen |= {p: _name(p) for p in ours}
            self.launched |= {p: told for p in ours if (told := _launched(p, self.order.launchers))[1]}
        if self.program and not self.ended_at and self._is_limit(now):
            self.order.limit = None
            self._say(event="limit")
            _send(signal.SIGTERM, [self.program])
            self.kill_at = now + UNHURRIED
        if self.kill_at and now > self.kill_at and not self.ended_at:
            self.kill_at = 0.0
            _send(signal.SIGKILL, self._ours("program"))

    looked = 0.0

    def _found(self, pid: int, how: str) -> None:
        self.program, self.launcher = pid, _stat(pid)[1]
        self.looked = time.monotonic()
        self._say(event="program", pid=pid, how=how)

    def _is_limit(self, now: float) -> bool:
        """Whether the program has been captured for as long as was asked for."""
        limit = self.order.limit
        if limit and limit.get("mark") and _appeared(limit["mark"]):
            limit |= {"begin": now, "mark": ""}
        return bool(limit and limit.get("begin") and now > limit["begin"] + limit["seconds"])

    def _is_stuck(self) -> bool:
        """Whether the profiler has done nothing for too long, with no program to wait for."""
        if not self.order.folders or (self.program and not self.ended_at):
            return False
        now, (looked, before) = time.monotonic(), self.moved
        if now - looked > LOOK:
            self.moved = now, self._moved()
            if self.moved[1] - before > IDLE_BYTES * (now - looked):
                self.active = now
        return now - self.active > self.order.patience

    def _moved(self) -> int:
        """Bytes that the profiler's processes have read, written and printed, and that lie in their folders; a second
        of user time above system time counts like :data:`BUSY` seconds at the idle rate."""
        total = sum(_size(p) for p in (self.order.out, self.order.err) if p) * IDLE_BYTES
        for folder in self.order.remove:  # some sandboxes have no /proc/PID/io
            total += sum(_size(f"{place}/{name}") for place, _, names in os.walk(folder) for name in names)
        for pid in self._ours("profiler"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
                worked = max(int(fields[11]) - int(fields[12]), 0)
                total += worked * BUSY * IDLE_BYTES // os.sysconf("SC_CLK_TCK")
                rows = Path(f"/proc/{pid}/io").read_text().splitlines()
                total += sum(int(row.split()[1]) for row in rows if row.startswith(("rchar", "wchar")))
        return total

    def _ours(self, whose: str) -> list[int]:
        """Living processes below us that are the ``program``'s or the ``profiler``'s."""
        return [p for p in self._tree() if _alive(p) and self._is_profiler(p) == (whose == "profiler")]

    def _is_profiler(self, pid: int) -> bool:
        try:
            path = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
        except OSError:
            return True  # on its way out: nobody to signal, nobody to blame
        return bool(self.order.folders) and (
            any(path.startswith(folder) for folder in self.order.folders) or any(part in path for part in PROFILER)
        )

    def _tree(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if entry.isdigit():
                children.setdefault(_stat(int(entry))[1], []).append(int(entry))
        found, queue = [], children.get(os.getpid(), [])
        while queue:
            pid = queue.pop()
            found.append(pid)
            queue += children.get(pid, [])
        return found

    # ---------------------------------------------------------------- what we leave: nothing

    def _sweep(self, *, at_once: bool) -> list[str]:
        """End everything below us. Returns the names of the program's processes that had to be ended."""
        start = time.monotonic()
        asked: dict[int, str] = {}
        while True:
            self._reap()
            self._watch_orphanhood()
            tree = [p for p in self._tree() if _alive(p)] or self._strays()
            if not tree:
                return sorted(set(asked.values()))
            waited = time.monotonic() - start
            program = [p for p in tree if not self._is_profiler(p)]
            fresh = [p for p in program if p not in asked]
            asked |= {p: _name(p) for p in fresh}
            _send(signal.SIGTERM, fresh)
            if at_once or self.orphaned or waited > self.order.linger:
                self.forced.update(tree)
                _send(signal.SIGKILL, tree)
            elif waited > PROGRAM_LINGERS:
                _send(signal.SIGKILL, program)
            time.sleep(0.02)

    def _strays(self) -> list[int]:
        """Living processes that carry our mark and are not below us: where the kernel knows no child subreaper."""
        mark, found = f"{MARK}={os.environ.get(MARK)}".encode(), []
        for entry in os.listdir("/proc"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if entry.isdigit() and mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
        return [pid for pid in found if pid != os.getpid() and _alive(pid)] if os.environ.get(MARK) else []

    def _watch_orphanhood(self) -> None:
        if select.select([self.control], [], [], 0)[0]:
            self._obey()

    def _open_files(self) -> list[str]:
        """Reports that killed processes of the profiler would leave half written in a temporary folder."""
        found = []
        for pid in self._ours("profiler"):
            with contextlib.suppress(OSError):
                found += [os.readlink(e) for e in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115
        return [path for path in set(found) if os.path.basename(path).startswith("nsys-report-")]  # noqa: PTH119

    def _say(self, **event: Any) -> None:
        with contextlib.suppress(OSError):  # nobody listens when we are dead
            os.write(self.status, json.dumps(event).encode() + b"\n")


def _stat(pid: int) -> tuple[str, int, int]:
    """State, parent and process group, from ``/proc``; ``("", 0, 0)`` when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[1]), int(fields[2])
    except (OSError, IndexError, ValueError):
        return "", 0, 0


def _alive(pid: int) -> bool:
    return _stat(pid)[0] not in ("", "Z", "X")


def _code_of_zombie(pid: int) -> int:
    """Exit code of a process that has ended and that its parent has not asked for. ``ValueError`` where it is none."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    told = Path(f"/proc/{pid}/status").read_text(errors="replace").partition("\nUid:")[2].split("\n", 1)[0]
    if fields[0] != "Z" or len(fields) < STATUS or set(told.split()) != {str(os.getuid())}:
        raise ValueError(pid)
    code = os.waitstatus_to_exitcode(int(fields[STATUS - 1]))
    return code if code >= 0 else 128 - code


def _group(pid: int) -> int:
    return _stat(pid)[2]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "?"


def _appeared(mark: str) -> bool:
    """Whether there is a file whose path begins so."""
    folder, name = os.path.split(mark)
    try:
        return any(entry.startswith(name) for entry in os.listdir(folder))  # noqa: PTH208
    except OSError:
        return False


def _launched(pid: int, variables: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command of a process, and those variables that it was started with."""
    try:
        words, block = (Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace") for name in FACTS)
    except OSError:
        return [], {}
    pairs = (entry.partition("=") for entry in block.split("\0"))
    return words.split("\0")[:-1], {name: value for name, _, value in pairs if name in variables}


def _send(number: int, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108


if __name__ == "__main__":
    Supervisor(int(sys.argv[1]), int(sys.argv[2])).run()
