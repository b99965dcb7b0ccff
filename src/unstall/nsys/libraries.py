"""Which shared libraries a binary lacks, and what installs them on this distribution.

Comes in: the path of a binary. Goes out: names such as ``libdw.so.1``, and one command. The importer that ships inside
Nsight Compute lacks ``libdw.so.1`` and ``libpfm.so.4`` on a bare Ubuntu; both are one ``apt-get`` away.

``ldd`` follows only what it finds. What a missing library needs itself, and what the libraries beside the binary need
that it opens as it runs, come to light one failed run after the other; so once something is missing, those are asked
for as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from unstall.nsys.ask import ask

EXTRA = "UNSTALL_LIBS"
"""Environment variable: folders (``:`` between them) with libraries, where nothing can be installed."""

# library → package, by family of distributions. Only what the importer of some nsys was seen or reported to lack.
PACKAGES: dict[str, dict[str, str]] = {
    "debian": {
        "libdw.so.1": "libdw1", "libelf.so.1": "libelf1", "libpfm.so.4": "libpfm4", "libGL.so.1": "libgl1",
        "libEGL.so.1": "libegl1", "libOpenGL.so.0": "libopengl0", "libglib-2.0.so.0": "libglib2.0-0",
        "libgthread-2.0.so.0": "libglib2.0-0", "libxcb.so.1": "libxcb1", "libX11.so.6": "libx11-6",
        "libxkbcommon.so.0": "libxkbcommon0", "libfontconfig.so.1": "libfontconfig1",
        "libfreetype.so.6": "libfreetype6", "libdbus-1.so.3": "libdbus-1-3", "libnss3.so": "libnss3",
        "libnspr4.so": "libnspr4", "libssh.so.4": "libssh-4", "libz.so.1": "zlib1g", "libstdc++.so.6": "libstdc++6",
        "libcrypt.so.1": "libcrypt1", "libpapi.so.5": "libpapi5", "libbz2.so.1.0": "libbz2-1.0",
        "liblzma.so.5": "liblzma5",
    },
    "fedora": {
        "libdw.so.1": "elfutils-libs", "libelf.so.1": "elfutils-libelf", "libpfm.so.4": "libpfm",
        "libGL.so.1": "libglvnd-glx", "libEGL.so.1": "libglvnd-egl", "libOpenGL.so.0": "libglvnd-opengl",
        "libglib-2.0.so.0": "glib2", "libgthread-2.0.so.0": "glib2", "libxcb.so.1": "libxcb", "libX11.so.6": "libX11",
        "libxkbcommon.so.0": "libxkbcommon", "libfontconfig.so.1": "fontconfig", "libfreetype.so.6": "freetype",
        "libdbus-1.so.3": "dbus-libs", "libnss3.so": "nss", "libnspr4.so": "nspr", "libz.so.1": "zlib",
        "libbz2.so.1": "bzip2-libs", "liblzma.so.5": "xz-libs",
    },
    "suse": {"libdw.so.1": "libdw1", "libelf.so.1": "libelf1", "libpfm.so.4": "libpfm4", "libGL.so.1": "libglvnd"},
    "arch": {"libdw.so.1": "libelf", "libelf.so.1": "libelf", "libpfm.so.4": "libpfm", "libGL.so.1": "libglvnd"},
    "alpine": {},
}  # fmt: skip
INSTALL = {
    "debian": "apt-get install -y", "fedora": "dnf install -y", "suse": "zypper install -y", "arch": "pacman -S",
    "alpine": "apk add",
}  # fmt: skip


AT_RUN_TIME = frozenset({"libdw.so.1", "libelf.so.1", "libpfm.so.4", "libpapi.so.5"})
"""What an importer was seen to need of the system. Libraries beside it that only the window needs (Qt, X11) are no
reason to do without it."""
IN_TURN = {"libdw.so.1": ("libelf.so.1", "libbz2.so.1.0", "liblzma.so.5")}
"""library → what it needs itself (elfutils as Debian and Ubuntu build it)."""


def lacking(binary: Path, folders: Iterable[Path] = (), environ: Mapping[str, str] | None = None) -> list[str] | None:
    """All that has to be brought before ``binary`` runs; empty when it can, ``None`` where it cannot be told."""
    first = missing(binary, folders, environ)
    if not first:
        return first
    env = with_libraries(folders, environ)
    beside = _ldd(sorted(binary.parent.glob("*.so*")), env) or ""
    later = [name for name in not_found(beside) if name in AT_RUN_TIME]
    named = list(dict.fromkeys([*first, *later]))
    return list(dict.fromkeys([*named, *_not_loadable([n for name in named for n in IN_TURN.get(name, ())], env)]))


def missing(binary: Path, folders: Iterable[Path] = (), environ: Mapping[str, str] | None = None) -> list[str] | None:
    """Shared libraries that ``binary`` cannot find, or ``None`` where it cannot be told (no ``ldd``, a script)."""
    said = _ldd([binary], with_libraries(folders, environ))
    return None if said is None else not_found(said)


def _ldd(binaries: list[Path], env: Mapping[str, str]) -> str | None:
    said = ask(["ldd", *map(str, binaries)], env)
    return said.text if said.code == 0 or "not found" in said.text else None


def _not_loadable(names: list[str], env: Mapping[str, str]) -> list[str]:
    """Those that the dynamic loader cannot find: asked to load them into a program that does nothing, it names them."""
    if not names:
        return []
    said = ask(["true"], {**env, "LD_PRELOAD": " ".join(names)})
    return re.findall(r"object '([^']+)' from LD_PRELOAD cannot be preloaded", said.err)


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
