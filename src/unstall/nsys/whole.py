"""An nsys that finds its importer, out of links: where the two lie apart, nothing of the installation is changed.

Comes in: an installed :class:`~unstall.nsys.discover.Nsys` and an empty folder of ours. Goes out: one whose path is
in that folder, or the same one where there is nothing to mend.

nsys looks for its importer in ``../host-…`` of its own binary. Inside Nsight Compute that folder has another name, in
Debian's package it lies elsewhere. An nsys that does not find it packs all that the importer would look up later,
every loaded library among it, into its raw stream: 2.2 GB for a torch script on an H200 machine, while the program
stood still for over two minutes. Both binaries are copied (or hard-linked), since they look beside what
``/proc/self/exe`` says.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from unstall.nsys.discover import Nsys
from unstall.nsys.libraries import EXTRA

ARM = "sbsa-armv8"


def made_whole(nsys: Nsys, folder: Path) -> Nsys:
    """The same nsys in a layout that works; itself where it is whole already or its importer cannot run.

    Args:
        nsys: an installed one.
        folder: where the links go; must live as long as the nsys is used.
    """
    if nsys.whole or nsys.importer is None or nsys.missing:
        return nsys
    binary = Path(os.path.realpath(nsys.path))
    target = folder / binary.parent.name
    host = folder / ("host-linux-armv8" if ARM in binary.parent.name else "host-linux-x64")
    try:
        _linked(binary.parent, target, binary.name)
        _linked(nsys.importer.parent, host, nsys.importer.name)
        _libraries(host)
    except OSError:  # a folder on a file system without links: the importer is then run by hand, as before
        return nsys
    return replace(nsys, path=target / binary.name, importer=host / nsys.importer.name)


def _linked(source: Path, target: Path, own: str) -> None:
    """A folder of links to everything in ``source``; ``own`` is a file of its own."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name == own:
            _copied(entry, target / own)
        else:
            (target / entry.name).symlink_to(entry)


def _copied(source: Path, target: Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy2(source, target)


def _libraries(host: Path) -> None:
    """Libraries of ``UNSTALL_LIBS`` beside the importer, which looks there (its run path is its own folder)."""
    for folder in filter(None, os.environ.get(EXTRA, "").split(os.pathsep)):
        for entry in Path(folder).iterdir():
            link = host / entry.name
            if ".so" in entry.name and not link.exists():
                link.symlink_to(entry.absolute())
