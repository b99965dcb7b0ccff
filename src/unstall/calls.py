"""What a CUDA call is called: ``cudaLaunchKernel``, where an export says ``cudaLaunchKernel_v7000``.

In: a name as captured. Out: the name without the version of the call's own interface, and without the mark of the
variant for a default stream of each thread (``_ptsz``, ``_ptds``), which stands before or behind it. nsys strips four
digits and leaves five; a reader has no use for either. Imports nothing.
"""

from __future__ import annotations

import re

VERSION = r"(_v\d+|_ptsz|_ptds)+$"
"""For tables of names, as a regular expression that Polars takes too."""
_VERSION = re.compile(VERSION)


def plain(name: str) -> str:
    """The name without its version."""
    return _VERSION.sub("", name)
