"""Run a program and capture a profile of it, wherever that is: with nsys, with a broken one, or without.

    capture = unstall.collect(["python", "train.py"])
    unstall.report_of(capture.sqlite)

    ================= =============================================================================
    options           what can be asked, and how each version of nsys wants to be asked
    flow, finish      from a command to a folder with ``profile.sqlite`` and ``run.json``
    nsys, builtin     the two collectors
    process, supervise  nothing of what we start outlives us; ``shim`` becomes the program
    interrupts        signals before the program runs, and after it
    output, ranks     where it goes
    diagnose_capture  what is wrong with a capture, and what mends it
    redact, meta      what is taken out of an export, and what is added
    machine, doctor   what can be collected here
    ================= =============================================================================

Comes in: a command. Goes out: files, and what must be known of them. Standard library only.
"""

from __future__ import annotations

from unstall.collect.capture import Capture
from unstall.collect.flow import collect
from unstall.collect.interrupts import Interrupted, Interrupts
from unstall.collect.notes import Note
from unstall.collect.options import CollectOptions

__all__ = ["Capture", "CollectOptions", "Interrupted", "Interrupts", "Note", "collect"]
