"""What the operating system tells of this process: threads and their CPU time, memory, context switches, CPUs.

Comes in: ``/proc`` and ``getrusage``. Goes out: plain dicts for the spool.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def process_name() -> str:
    """The script's name, or the interpreter's."""
    words = [w for w in sys.orig_argv[1:] if not w.startswith("-")]
    return Path(words[0]).name if words and words[0].endswith(".py") else Path(sys.executable or "python").name


def threads() -> dict[str, Any]:
    """Every thread by its number: name (Python's where it has one) and CPU time so far, in ns."""
    names = {t.native_id: t.name for t in threading.enumerate()}
    rows = []
    for task in Path("/proc/self/task").iterdir() if Path("/proc/self/task").is_dir() else ():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        tid, fields = int(task.name), rest.split()
        rows.append([tid, names.get(tid, name), (int(fields[11]) + int(fields[12])) * TICK_NS])
    return {"kind": "threads", "threads": rows}


def usage() -> dict[str, Any]:
    """CPU time, memory, context switches and page faults of the process, and the CPUs it may use."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user_ns": round(used.ru_utime * 1e9), "system_ns": round(used.ru_stime * 1e9),
        "max_rss_bytes": used.ru_maxrss * 1024, "major_faults": used.ru_majflt,
        "voluntary_switches": used.ru_nvcsw, "involuntary_switches": used.ru_nivcsw,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }  # fmt: skip
