"""Bytes as they were saved or pasted → clean lines.

In: bytes or text. Out: lines without carriage returns, colours and quote marks; what could not be decoded, as warnings.
"""

from __future__ import annotations

import re

from unstall.model import Warning_

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BOX = str.maketrans("│┃║─━═┼╋├┤┌┐└┘┬┴┏┓┗┛┣┫┳┻╇┡┩╞╡╪", "|||---++++++++++++++++++++++++")
_HALF = re.compile("[\ud800-\udfff]")
_QUOTED = re.compile(r"^(?://|>|#) ?")


def decode(data: bytes) -> tuple[str, list[Warning_]]:
    """Text in UTF-8, or UTF-16 as PowerShell's ``>`` writes it; undecodable bytes become ``\\ufffd``, said once."""
    encoding = next((e for bom, e in _BOMS if data.startswith(bom)), None) or _without_bom(data)
    text = data.decode(encoding, errors="replace").removeprefix("\ufeff")
    bad = text.count("\ufffd") - (data.count(b"\xef\xbf\xbd") if encoding == "utf-8" else 0)
    if bad <= 0:
        return text, []
    what = f"{bad} characters are not valid {encoding.upper()} and show as \ufffd: names that hold them may be wrong."
    return text, [Warning_(code="text-decoding", text=what)]


def _without_bom(data: bytes) -> str:
    """UTF-16 betrays itself by NULs in every second byte."""
    head = data[:1000]
    if len(head) >= 20 and head[1::2].count(0) > 0.4 * len(head) // 2:
        return "utf-16-le"
    return "utf-16-be" if len(head) >= 20 and head[::2].count(0) > 0.4 * len(head) // 2 else "utf-8"


def whole(text: str) -> str:
    """Text that can be written: halves of a character, as an escape in JSON may hold one, become ``\\ufffd``."""
    return _HALF.sub("\ufffd", text)


def split_lines(text: str) -> list[str]:
    """Lines as a reader sees them: a lone carriage return (a progress bar) starts a new one.

    Quote marks that stand before nearly every line (``> `` of a mail, ``// `` of a comment) are taken off.
    """
    text = _COLOUR.sub("", whole(text).replace("\ufeff", ""))
    lines = re.sub(r"\r*\n|\r+", "\n", text).split("\n")
    lines = [line.translate(_BOX) if ord(line.lstrip()[:1] or " ") in _BOX else line for line in lines]
    if not any(line.strip() for line in lines[1::2]):  # double-spaced by a careless copy
        lines = lines[::2]
    written = [line for line in lines if line.strip()]
    quoted = sum(1 for line in written if _QUOTED.match(line))
    return [_QUOTED.sub("", line) for line in lines] if written and quoted > 0.9 * len(written) else lines
