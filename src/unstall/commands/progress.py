"""What a command says while it works: lines on standard error, in the language asked for.

In: English sentences as they come. Out: lines that say whose they are.
"""

from __future__ import annotations

from collections.abc import Callable

from unstall.commands import files
from unstall.lang import speaker

Tell = Callable[[str], None]


def teller(language: str, who: str = "") -> Tell:
    """Shows one line at once; ``who`` of many says it."""
    say = speaker(language)

    def tell(line: str) -> None:
        files.say(f"unstall{' ' * bool(who)}{who}: {say.heard(line)}")

    return tell
