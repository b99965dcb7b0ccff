"""Which shared libraries a binary lacks, and what installs them on this distribution.

Comes in: the path of a binary. Goes out: names such as ``libdw.so.1``, and one command. The importer that ships inside
Nsight Compute lacks ``libdw.so.1`` and ``libpfm.so.4`` on a bare Ubuntu; both are one ``apt-get`` away.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

EXTRA = "UNSTALL_LIBS"
"""Environment variable: folders (``:`` between them) with libraries, where nothing can be installed."""

SECONDS = 20.0  # ldd of the importer's 200 MB of libraries takes 0.1 s; a cold network disk takes longer

# library → package, by family of distributions. Only what the importer of some nsys was seen or reported to lack.
PACKAGES: dict[str, dict[str, str]] = {
    "debian": {
        "libdw.so.1": "libdw1", "libelf.so.1": "libelf1", "libpfm.so.4": "libpfm4", "libGL.so.1": "libgl1",
        "libEGL.so.1": "libegl1", "libOpenGL.so.0": "libopengl0", "libglib-2.0.so.0": "libglib2.0-0",
        "libgthread-2.0.so.0": "libglib2.0-0", "libxcb.so.1": "libxcb1", "libX11.so.6": "libx11-6",
        "libxkbcommon.so.0": "libxkbcommon0", "libfontconfig.so.1": "libfontconfig1",
        "libfreetype.so.6": "libfreetype6", "libdbus-1.so.3": "libdbus-1-3", "libnss3.so": "libnss3",
        "libnspr4.so": "libnspr4", "libssh.so.4": "libssh-4", "libz.so.1": "zlib1g", "libstdc++.so.6": "libstdc++6",
        "libcrypt.so.1": "libcrypt1", "libpapi.so.5": "libpapi5",
    },
    "fedora": {
        "libdw.so.1": "elfutils-libs", "libelf.so.1": "elfutils-libelf", "libpfm.so.4": "libpfm",
        "libGL.so.1": "libglvnd-glx", "libEGL.so.1": "libglvnd-egl", "libOpenGL.so.0": "libglvnd-opengl",
        "libglib-2.0.so.0": "glib2", "libgthread-2.0.so.0": "glib2", "libxcb.so.1": "libxcb", "libX11.so.6": "libX11",
        "libxkbcommon.so.0": "libxkbcommon", "libfontconfig.so.1": "fontconfig", "libfreetype.so.6": "freetype",
        "libdbus-1.so.3": "dbus-libs", "libnss3.so": "nss", "libnspr4.so": "nspr", "libz.so.1": "zlib",
    },
    "suse": {"libdw.so.1": "libdw1", "libelf.so.1": "libelf1", "libpfm.so.4": "libpfm4", "libGL.so.1": "libglvnd"},
    "arch": {"libdw.so.1": "libelf", "libelf.so.1": "libelf", "libpfm.so.4": "libpfm", "libGL.so.1": "libglvnd"},
    "alpine": {},
}  # fmt: skip
INSTALL = {
    "debian": "apt-get install -y", "fedora": "dnf install -y", "suse": "zypper install -y", "arch": "pacman -S",
    "alpine": "apk add",
}  # fmt: skip


def missing(binary: Path, folders: Iterable[Path] = (), environ: Mapping[str, str] | None = None) -> list[str] | None:
    """Shared libraries that ``binary`` cannot find, or ``None`` where it cannot be told (no ``ldd``, a script)."""
    env = with_libraries(folders, environ)
    try:
        done = subprocess.run(
            ["ldd", str(binary)], env=env, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode and "not found" not in done.stdout + done.stderr:
        return None
    return not_found(done.stdout + done.stderr)


def not_found(text: str) -> list[str]:
    """Library names that the output of ``ldd`` or of the dynamic loader itself calls missing."""
    found = re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE)
    found += re.findall(r"error while loading shared libraries: ([^:\s]+):", text)
    return list(dict.fromkeys(found))


def with_libraries(folders: Iterable[Path], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment with these folders, and those of ``UNSTALL_LIBS``, searched for libraries first."""
    env = dict(os.environ if environ is None else environ)
    extra = [f for f in env.get(EXTRA, "").split(os.pathsep) if f]
    first = [*map(str, folders), *extra]
    if first:
        env["LD_LIBRARY_PATH"] = os.pathsep.join([*first, *filter(None, [env.get("LD_LIBRARY_PATH")])])
    return env


def family(root: Path = Path("/")) -> str:
    """``debian``, ``fedora``, ``suse``, ``arch`` or ``alpine``, by ``/etc/os-release``; empty when unknown."""
    try:
        text = (root / "etc/os-release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    words = " ".join(re.findall(r'^ID(?:_LIKE)?="?([^"\n]*)', text, re.MULTILINE)).split()
    alike = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "amzn": "fedora", "opensuse": "suse"}
    found = (alike.get(word, word) for word in words)
    return next((name for name in found if name in INSTALL), "")


def install_command(libraries: Iterable[str], root: Path = Path("/")) -> str:
    """The command that installs these libraries here; where a package is not known, the words to look for it."""
    names = list(libraries)
    known = PACKAGES.get(family(root), {})
    packages = list(dict.fromkeys(known[name] for name in names if name in known))
    unknown = [name for name in names if name not in known]
    parts = [f"{INSTALL[family(root)]} {' '.join(packages)}"] if packages else []
    if unknown:
        parts.append(f"install what provides {', '.join(unknown)}")
    return ", and ".join(parts)
