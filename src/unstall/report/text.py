"""Figures and names as people read them: the edge where nanoseconds become milliseconds and words.

In: numbers of the report (ns, bytes, percent) and names from the profile, which are anybody's text. Out: plain strings.
Pure; knows no terminal. Unknown (``None``) is a dash, never a zero.
"""

from __future__ import annotations

import re

DASH = "–"

# What could move the cursor, colour, reorder or hide text around it: C0, DEL, C1, zero-width and bidirectional
# controls, line and paragraph separators, lone surrogates, annotation and tag characters. The joiners U+200C/D stay:
# Persian and emoji need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """``text`` on one line with every character that a terminal would act on shown as an escape (``\\x1b``)."""
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def shorten(text: str, limit: int) -> str:
    """``text`` cut to ``limit`` characters, the cut shown by an ellipsis."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def number(value: float | None, places: int = 3) -> str:
    """At least three significant figures, at most ``places`` decimals: 123456, 1135.9, 22.6, 2.69, 0.812."""
    if value is None:
        return DASH
    if value == 0:
        return "0"
    if abs(value) < 0.5 * 10**-places:
        return f"<{10**-places:.{places}f}"
    return f"{value:.{_decimals(value, places)}f}"


def _decimals(value: float, places: int) -> int:
    """Decimals for three significant figures; asked of the rounded value: 9.994 is 9.99, and 9.996 10.0, not 10.00."""
    if abs(value) >= 99_999.5:
        return 0
    for decimals in range(1, places):
        if round(abs(value), decimals + 1) >= 10 ** (2 - decimals):
            return decimals
    return places


def ms(ns: float | None, places: int = 3) -> str:
    """Nanoseconds as a bare number of milliseconds."""
    return number(None if ns is None else ns / 1e6, places)


def us(ns: float | None, places: int = 2) -> str:
    """Nanoseconds as a bare number of microseconds."""
    return number(None if ns is None else ns / 1e3, places)


def duration(ns: float | None) -> str:
    """Nanoseconds with the unit that suits them: ``850 ns``, ``12.3 µs``, ``25.3 ms``, ``2.13 s``, ``3 min 20 s``."""
    if ns is None:
        return DASH
    size = abs(ns)
    if size < 999.5:
        return f"{ns:.0f} ns" if size > 0.5 or not ns else "<1 ns"
    if size < 999.5e3:
        return f"{_figure(ns / 1e3)} µs"
    if size < 9.9995e9:
        return f"{_figure(ns / 1e6)} ms" if size < 999.5e6 else f"{_figure(ns / 1e9)} s"
    seconds = round(ns / 1e9, 1)
    minutes, rest = divmod(round(seconds), 60)
    return f"{seconds:.1f} s" if seconds < 120 else f"{minutes} min {rest} s"


_UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}


def as_printed(ns: float) -> float:
    """Nanoseconds as :func:`duration` rounds them: what a reader calculates with."""
    words = duration(ns).removeprefix("<").split()
    return sum(float(value) * _UNITS[unit] for value, unit in zip(words[::2], words[1::2], strict=True))


def size(count: float | None) -> str:
    """Bytes in decimal units: ``64 B``, ``201 MB``, ``1.25 GB``."""
    if count is None:
        return DASH
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= 0.9995 * scale:
            return f"{_figure(count / scale)} {unit}"
    return f"{count:.0f} B"


def _figure(value: float) -> str:
    """Three significant figures, none invented behind a round number of hundreds: 201, 25.3, 2.69."""
    return f"{value:.0f}" if round(abs(value), 1) >= 100 else number(value, 2)


def percent(value: float | None) -> str:
    """A percentage with one decimal; what is there but rounds to nothing is ``<0.1 %``, to all of it ``>99.9 %``."""
    if value is None:
        return DASH
    if 0 < abs(value) < 0.05:
        return "<0.1 %"
    if 99.95 <= value < 100:
        return ">99.9 %"
    return f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"


def share(value: float | None) -> str:
    """A percentage without its sign, for a column that names it."""
    return percent(value).removesuffix(" %")


def rough_percent(value: float) -> str:
    """A percentage for a sentence: whole, but never rounded up to all or down to nothing."""
    if 99.5 <= value < 100 or 0 < value <= 0.5:
        return percent(value)
    return f"{value:.0f} %"


def count(value: float | None) -> str:
    """A count with thousands separators; an average of counts keeps one decimal."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if float(value).is_integer() or value >= 99.95 else f"{value:,.1f}"


def speedup(value: float | None) -> str:
    """``9.3×``, ``1.04×``."""
    return DASH if value is None else f"{value:.1f}×" if value >= 1.995 else f"{value:.2f}×"


def plural(value: int, word: str) -> str:
    """``1 step``, ``30 steps``, ``2 copies``."""
    many = f"{word[:-1]}ies" if word.endswith("opy") else f"{word}s"
    return f"{count(value)} {word if value == 1 else many}"


_PARENTHESES = re.compile(r"\([^()]*\)")  # argument lists, casts like (int)4, (anonymous namespace), (instance 1)
_NOISE = re.compile(
    r"::\[lambda[^\]]*\]|::\{lambda[^}]*\}(?:#\d+)?|::operator *(?:const)?|::lambda\b| const$"  # nested functors
    r"|(?:std::)?array<char ?\*, \w+>(?:, )?|TensorList(?:ScalarList)?Metadata<[^<>]*>(?:, )?"  # its argument packing
)
_TILED = re.compile(r"(_tilesize[\dx]+)_stage.*?(_split_k)?_kernel__\w+$")  # cuBLAS: past the tile, kernels agree
_WRAPPED = re.compile(r"^Kernel2?<(\w+)>$")  # CUTLASS
_NAMESPACES = re.compile(r"(?:\b[A-Za-z_]\w*|<unnamed>)?(?:::)+")


def kernel_name(name: str) -> str:
    """A demangled kernel name without return types, arguments and namespaces: what tells kernels apart at a glance."""
    short, found = name, 1
    while found:
        short, found = _PARENTHESES.subn("", short)
    short = _NAMESPACES.sub("", _NOISE.sub("", short).replace("void ", ""))
    return _WRAPPED.sub(r"\1", _TILED.sub(r"\1\2", short.replace(", >", ">"))).strip() or name


_PLAIN = re.compile(r"[<>\-–]?[\d,]*(\.\d+)?")


def align_decimals(cells: list[str]) -> list[str]:
    """Numbers padded on the right so that their decimal points stand in one column; anything else as it is."""
    if not all(_PLAIN.fullmatch(cell) for cell in cells):
        return cells
    tails = [len(cell) - len(cell.partition(".")[0]) for cell in cells]
    return [cell + " " * (max(tails) - tail) for cell, tail in zip(cells, tails, strict=True)]
