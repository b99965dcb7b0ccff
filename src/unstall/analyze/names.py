"""Range names that differ only in a count, folded into one family: ``step_12``, ``step_13`` → ``step_*``.

In: names. Out: family names. Two functions, one rule. A number is a whole run of digits (or ``0x…``); what it is, is
said by the text around it:

=========  =====================================================  ====================================================
kind       recognised by                                          becomes ``*``
=========  =====================================================  ====================================================
part       a letter or digit right behind: conv2d, h2d, 3x3       never
identity   the word in front: bf16, sm80, float32, v2, rank 3     never
counting   the word in front: step, iteration, epoch, id, 스텝 …  as soon as two names of the set differ in it
other      anything else: layer1, block.7, resnet50, ``[7]``      where at least ``MIN_SIBLINGS`` names of the set
                                                                  differ in it and the numbers leave no large gaps
=========  =====================================================  ====================================================

:func:`families` sees the whole set: a lone ``step_0`` keeps its name, ``epoch1/step2`` keeps its ``epoch1`` where there
is one epoch only, ``matmul_128`` … ``matmul_4096`` and the four stages ``layer1`` … ``layer4`` stay apart, and
``block_0`` … ``block_47`` become ``block_*``. :func:`family` sees one name, and folds counting numbers only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import polars as pl

MIN_SIBLINGS = 5
"""Fewer numbered siblings without a counting word are likelier phases or stages (``conv_1``, ``conv_2``, the four
``layerN`` of a ResNet) that the reader wants apart, and they cost few rows."""
MAX_SPREAD = 2
"""Counts are dense: their range is below this times their number. Sizes (128, 256, 512 …) are not."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COUNTING = _words(
    "step steps iter iters iteration iterations it epoch epochs batch batches minibatch microbatch ubatch mb chunk "
    "chunks sample samples frame frames episode round request req token tokens seq sequence id ids opid uid idx index "
    "i no nr num run trial attempt loop task job item turn window étape schritt paso época époque epoche lote шаг "
    "스텝 단계 에폭 에포크 배치 반복 이터레이션 회 步 步骤 轮 批次 ステップ エポック バッチ"
)
IDENTITY = _words(
    "sm compute fp bf tf int uint float bfloat e m v version py python cuda nsys "  # types, architectures, versions
    "rank gpu device dev node host stream tp pp dp ep"  # places: folding them would hide an imbalance
)
_ENDINGS = ("step", "steps", "epoch", "batch", "iteration", "스텝", "에폭", "배치", "ステップ")  # trainstep12

_NUMBER = r"0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?"  # the same in Python's and in Polars' dialect
_SLOT = "\0"
_WORD = re.compile(r"[^\W\d_]+\Z")
_HUMP = re.compile(r"[A-Z]?[a-z]+\Z|[A-Z]+\Z")  # ProfilerStep#3 → Step
_SEPARATORS = " \t_-#:=./(["
_LOOK_BACK = 40  # characters: longer than any counting word with its separators


def family(name: str) -> str:
    """The family that ``name`` belongs to, judged by the name alone: only counting numbers become ``*``."""
    text = re.split(_NUMBER, name)
    numbers = re.findall(_NUMBER, name)
    shown = ["*" if kind == "counting" else number for kind, number in zip(_kinds(text), numbers, strict=True)]
    return "".join(part for pair in zip(text, [*shown, ""], strict=True) for part in pair)


def families(series: pl.Series) -> pl.Series:
    """The family of each name, judged by the whole set: strings, as many as came in; nulls stay null."""
    text = series.cast(pl.String)
    distinct = text.unique().drop_nulls()
    table = _fold(distinct.filter(distinct.str.contains("[0-9]")).to_frame("old"))
    if not table.height:
        return text
    joined = text.to_frame("old").join(table, on="old", how="left", maintain_order="left")
    return joined.select(pl.coalesce("new", "old").alias(series.name)).to_series()


def _fold(names: pl.DataFrame) -> pl.DataFrame:
    """``old`` → ``new`` for those distinct names that fold."""
    slots = _slots(names)
    rules = _rules(slots.group_by("skeleton", "slot").agg(
        distinct=pl.col("number").n_unique(),
        spread=pl.col("number").cast(pl.Float64, strict=False).pipe(lambda c: c.max() - c.min()),
    ))  # fmt: skip
    parts = slots.join(rules, on=["skeleton", "slot"], how="inner").sort("old", "slot")
    shown = pl.when("fold").then(pl.lit("*")).otherwise("number")
    return parts.group_by("old", "skeleton", "end", maintain_order=True).agg(
        (pl.col("before") + shown).str.join().alias("new")
    ).select("old", pl.col("new") + pl.col("end"))  # fmt: skip


def _slots(names: pl.DataFrame) -> pl.DataFrame:
    """One row a number: ``old`` (the name), ``skeleton`` (its text with the numbers out), ``slot``, ``number``.

    Names that share their text with no other cannot fold and are left out.
    """
    keyed = names.filter(~pl.col("old").str.contains(_SLOT, literal=True)).with_columns(
        skeleton=pl.col("old").str.replace_all(_NUMBER, _SLOT), number=pl.col("old").str.extract_all(_NUMBER)
    )
    shared = keyed.filter(pl.len().over("skeleton") > 1)
    return shared.with_columns(slot=pl.int_ranges(0, pl.col("number").list.len())).explode("number", "slot")


def _rules(stats: pl.DataFrame) -> pl.DataFrame:
    """Per skeleton and slot: the text ``before``, whether to ``fold``, the skeleton's ``end``; folding ones only."""
    rows = []
    for (skeleton,), slots in stats.sort("skeleton", "slot").group_by("skeleton", maintain_order=True):
        text = str(skeleton).split(_SLOT)
        measured = zip(_kinds(text), slots["distinct"], slots["spread"], strict=True)
        fold = [_counts(kind, distinct, spread) for kind, distinct, spread in measured]
        if any(fold):
            rows += [(skeleton, i, text[i], star, text[-1]) for i, star in enumerate(fold)]
    schema = {"skeleton": pl.String, "slot": pl.Int64, "before": pl.String, "fold": pl.Boolean, "end": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _counts(kind: str, distinct: int, spread: float | None) -> bool:
    if distinct < 2 or kind in ("part", "identity"):
        return False
    dense = distinct >= MIN_SIBLINGS and spread is not None and spread < MAX_SPREAD * distinct
    return kind == "counting" or dense


def _kinds(text: Sequence[str]) -> list[str]:
    """What the number after each piece of text is, all but the last piece having one."""
    return [_kind(before, after) for before, after in pairwise(text)]


def _kind(before: str, after: str) -> str:
    if after[:1].isascii() and after[:1].isalnum():
        return "part"
    tail = before[-_LOOK_BACK:]
    words = tail.rstrip(_SEPARATORS)
    word = _WORD.search(words)
    if len(tail) - len(words) > 4 or word is None:
        return "counting" if tail.endswith("#") else "other"
    return _kind_of_word(word.group())


@lru_cache(maxsize=4096)
def _kind_of_word(word: str) -> str:
    lower = word.lower()
    hump = _HUMP.search(word)
    last = hump.group().lower() if hump else lower
    if lower in COUNTING or last in COUNTING or lower.endswith(_ENDINGS):
        return "counting"
    return "identity" if lower in IDENTITY or last in IDENTITY else "other"
