"""An nsys made of shell, for tests: enough of it to run a program, write a report and export it.

What it does wrong is chosen by flags: see :data:`WRONG`. Layouts of several packages can be built around it.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from unstall.nsys.discover import Nsys

REPORT_HEAD = "NVIDIA Tegra Profiler Report 1."
STREAM_HEAD = "U3w[END]NVIDIA Nsight Systems Stream"

SCRIPT = """#!/bin/sh
here=$(dirname "$0")
has() {{ case " {wrong} " in *" $1 "*) return 0;; esac; return 1; }}
case "$1" in
--version) echo "NVIDIA Nsight Systems version {version}-abcdef"; exit 0;;
status) printf 'CPU Profiling Environment (process-tree): {sampling}\\n'; exit 0;;
export)
  has slow-export && sleep 20
  has no-export && {{ echo "Exportation error: broken" >&2; exit 1; }}
  for a in "$@"; do case "$a" in --output=*) out=${{a#--output=}};; esac; last=$a; done
  has half-export && {{ head -c 50 /dev/zero > "$out"; exit 0; }}
  cp "$here/export.sqlite" "$out"; exit 0;;
profile) shift;;
esac
for a in "$@"; do
  case "$a" in
  --output=*) out=${{a#--output=}};;
  {refused}) echo "unrecognised option '$a'" >&2; echo "usage: nsys profile" >&2; exit 1;;
  --trace=*refused*) echo "Illegal --trace argument 'refused'" >&2; exit 1;;
  -*) ;;
  *) break;;
  esac
  shift
done
has crash && [ ! -e "$here/crashed" ] && {{ touch "$here/crashed"; echo "x.cpp(1): Throw in function f" >&2; exit 1; }}
has agent && {{ setsid sh -c 'exec sleep 300' </dev/null >/dev/null 2>&1 & }}
"$@"
code=$?
has hang && {{ while :; do sleep 0.2; done; }}
has no-report && {{ echo "Generated:"; exit $code; }}
if has stream; then
  printf '%s {version}' '{stream}' > "$out.qdstrm"; echo "Generated:"; echo "    $out.qdstrm"; exit $code
fi
has exports && cp "$here/export.sqlite" "$out.sqlite"
has repeats && {{ printf '%s' '{report}' > "$out.2.nsys-rep"; echo "Generated:"; echo "    $out.2.nsys-rep"; }}
if has elsewhere; then out=$TMPDIR/nsys-report-1234; echo "Failed to create '$out.nsys-rep': File exists." >&2; fi
printf '%s' '{report}' > "$out.nsys-rep"
echo "Generated:"; echo "    $out.nsys-rep"
exit $code
"""
WRONG = (
    "no-export",
    "half-export",
    "crash",
    "agent",
    "hang",
    "no-report",
    "stream",
    "elsewhere",
    "exports",
    "repeats",
    "slow-export",
)

IMPORTER = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in -i) in=$2;; -o) out=$2;; esac; shift; done
grep -q 'Nsight Systems Stream' "$in" || exit 2
printf x >> "$in"
printf '%s' 'NVIDIA Tegra Profiler Report 1.' > "$out"
"""


def executable(path: Path, text: str) -> Path:
    """A script at ``path``, its folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def nsys(
    folder: Path, version: str = "2024.5.1", *, wrong: str = "", refused: str = "--none", sampling: str = "OK"
) -> Path:
    """A fake nsys in ``folder``."""
    assert set(wrong.split()) <= set(WRONG)
    text = SCRIPT.format(
        version=version, wrong=wrong, refused=refused, sampling=sampling, stream=STREAM_HEAD, report=REPORT_HEAD
    )
    small_export(folder / "export.sqlite")
    return executable(folder / "nsys", text)


def importer(folder: Path) -> Path:
    """A fake QdstrmImporter; like the real one it writes into its input."""
    return executable(folder / "QdstrmImporter", IMPORTER)


def tool(folder: Path, version: str = "2024.5.1", **how: str) -> Nsys:
    """A fake installation as discovery would describe it."""
    numbers = tuple(int(n) for n in version.split("."))
    path = nsys(folder / "target-linux-x64", version, **how)
    return Nsys(path, numbers, "test", importer(folder / "host-linux-x64"), ())


def small_export(path: Path, *, environment: str = "", more: str = "") -> Path:
    """The export of a tiny capture: one range, one kernel; ``more`` is SQL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            """
            CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
            CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
            CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER,
                                                 value TEXT);
            CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
            CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
                                      globalTid INTEGER, textId INTEGER, domainId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, correlationId INTEGER,
                                                     globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
            CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
            INSERT INTO StringIds VALUES (1, 'forward'), (2, 'gemm');
            INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2024.5.1'),
                                                ('EXPORT_SCHEMA_VERSION', '3.13.0'), ('EXPORT_HOST', 'lab-node-17');
            INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'Local', 'Hostname', 619, 'lab-node-17'),
                                                      (1, 'Local', 'CpuCores', 1, '2');
            INSERT INTO NVTX_EVENTS VALUES (10, 90, 59, NULL, 16777217, 1, 0);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (20, 80, 7, 16777216, 2, 2);
            """
        )
        if environment:
            db.execute(
                "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'Local', 'DeviceEnvironment', 610, ?)", (environment,)
            )
        db.executescript(more)
        db.commit()
    return path
