"""A profile file → :class:`~unstall.model.Profile`.

Comes in: a path. Goes out: a profile, or one clear error.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.model import Profile


def load(path: str | os.PathLike[str], *, cache: bool = True) -> Profile:
    """Load a capture."""
    from unstall.load.sqlite import load_sqlite

    return load_sqlite(Path(path))
