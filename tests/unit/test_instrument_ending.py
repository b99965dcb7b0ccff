"""What a program has to say before it dies of SIGTERM is said once, and it dies all the same."""

from __future__ import annotations

import signal
import subprocess
import sys

CODE = """
import os, signal, sys, time
from unstall.instrument.ending import not_on_sigterm, on_sigterm
def last_words():
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)  # a second one meanwhile
    time.sleep(0.1)
    print("to the end", flush=True)
def fails(): raise ValueError("no")
def unsaid(): print("unsaid", flush=True)
SETUP
for function in (unsaid, fails, last_words, last_words): on_sigterm(function)
not_on_sigterm(unsaid)
if sys.argv[1] == "fork":
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(3)
    os.kill(pid, signal.SIGTERM)
    sys.exit(os.waitpid(pid, 0)[1])
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def run(how: str, setup: str = "") -> tuple[int, list[str]]:
    line = [sys.executable, "-c", CODE.replace("SETUP", setup), how]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.splitlines()


def test_last_words_are_said_once_and_the_signal_kills() -> None:
    assert run("self") == (-signal.SIGTERM, ["last words", "to the end"])


def test_forked_child_dies_at_once() -> None:
    assert run("fork") == (int(signal.SIGTERM), [])


def test_program_that_handles_it_is_left_alone() -> None:
    assert run("self", "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))") == (5, [])
