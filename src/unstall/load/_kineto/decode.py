"""A trace file → events: unpacking, JSON, and which JSON it is.

Comes in: a path. Goes out: a :class:`Trace` with its events typed, and how many could not be read. Only the fields used
are decoded; numbers of time stay decimal, because a double cannot hold nanoseconds since 1970.

A file is read whole, or refused with one line: cut off (the program ended while it wrote), not JSON, JSON of something
else, a trace of another tool. Two faults that PyTorch itself writes are mended first: ``inf`` and ``nan`` as bare
words, and bytes that are no UTF-8.
"""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF8
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from unstall.errors import NotAProfile, ProfileUnreadable

GZIP = b"\x1f\x8b"
LARGEST = 2 << 30
"""Bytes of JSON, unpacked. Its events take about three times that in memory; a trace of this size holds minutes."""
BLOCK = 1 << 20
CUT = "cut off: the program ended while it wrote the trace, or the copy was interrupted"
FEWER = "Record fewer steps: torch.profiler.schedule(wait=5, warmup=2, active=10)"
AGAIN = "Write it again with prof.export_chrome_trace(FILE)"
WORDS = re.compile(rb'(":\s*)-?(?:[iI]nf(?:inity)?|-?nan(?:\([^)]*\))?|NaN)(?=\s*[,}\]])')
KNOWN = frozenset({
    "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "cuda_runtime", "cuda_driver", "runtime",
    "user_annotation", "cpu_op", "operator", "python_function", "cuda_sync", "overhead", "gpu_user_annotation",
})  # fmt: skip
"""Categories of Kineto, in lower case; those of PyTorch 1.8 to 1.11 are ``Kernel``, ``Memcpy``, ``Runtime`` …"""
MARKS = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "trace_id", "schemaVersion")


class Args(msgspec.Struct, gc=False):
    """What is used of an event's ``args``; of any type, because versions differ and strangers write files."""

    device: Any = None
    in_device: Any = msgspec.field(default=None, name="inDevice")
    context: Any = None
    in_context: Any = msgspec.field(default=None, name="inContext")
    stream: Any = None
    correlation: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    grid: Any = None
    block: Any = None
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared: Any = msgspec.field(default=None, name="shared memory")
    node: Any = msgspec.field(default=None, name="graph node id")
    bytes: Any = None
    bytes_old: Any = msgspec.field(default=None, name="Bytes")
    sync_kind: Any = msgspec.field(default=None, name="cuda_sync_kind")
    event: Any = msgspec.field(default=None, name="wait_on_cuda_event_id")
    python_id: Any = msgspec.field(default=None, name="Python id")
    python_parent: Any = msgspec.field(default=None, name="Python parent id")
    name: Any = None
    labels: Any = None


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: Args | None = None


class Trace(msgspec.Struct):
    traceEvents: list[Event]  # noqa: N815
    schemaVersion: Any = None  # noqa: N815
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    baseTimeNanoseconds: Any = None  # noqa: N815
    trace_id: Any = None
    host_name: Any = None
    with_stack: Any = None


class _Loose(msgspec.Struct):
    traceEvents: list[msgspec.Raw]  # noqa: N815


def read(path: Path) -> tuple[Trace, int]:
    """The trace, and the number of its events that are malformed.

    Raises:
        ProfileUnreadable: cut off, damaged, not JSON, or too large.
        NotAProfile: JSON of something else.
    """
    data = unpacked(path).removeprefix(BOM_UTF8)
    try:
        return _decode(data)
    except msgspec.ValidationError as error:
        raise NotAProfile(str(path), *_something_else(data)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if "truncated" in str(error):
            raise ProfileUnreadable(str(path), CUT, AGAIN) from error
        raise ProfileUnreadable(str(path), f"not valid JSON ({error})", AGAIN) from error


def check(path: Path, trace: Trace) -> None:
    """Refuse what PyTorch's profiler did not write.

    Raises:
        NotAProfile: events, but of another tool.
        ProfileUnreadable: no events at all.
    """
    if any(e.cat.lower() in KNOWN for e in trace.traceEvents):
        return
    if any(getattr(trace, mark) is not None for mark in MARKS):
        why = "a trace of PyTorch's profiler without a single event"
        hint = "Let the profiler see whole steps: its schedule must reach `active`, with prof.step() once a step"
        raise ProfileUnreadable(str(path), why, hint)
    raise NotAProfile(str(path), *_other_tool(trace))


def unpacked(path: Path) -> bytes:
    """The file's bytes, of a ``.gz`` those inside."""
    with path.open("rb") as file:
        head = file.read(2)
        file.seek(0)
        if head != GZIP:
            if path.stat().st_size > LARGEST:
                raise _too_large(path)
            return file.read()
        parts, size = [], 0
        for part in _inflate(path, iter(lambda: file.read(BLOCK), b"")):
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise _too_large(path)
    return b"".join(parts)


def begins(head: bytes) -> bytes:
    """The first bytes of the JSON in a file that begins with ``head``; empty where it holds none."""
    if head.startswith(GZIP):
        try:
            head = zlib.decompressobj(31).decompress(head, 1 << 16)
        except zlib.error:
            return b""
    return head.removeprefix(BOM_UTF8).lstrip()


def _inflate(path: Path, blocks: Any) -> Any:
    """Unpacks member after member; never more than a block's worth at once."""
    unpack, done = zlib.decompressobj(31), False
    try:
        for block in blocks:
            left = block
            while left:
                yield unpack.decompress(left, 16 * BLOCK)
                left, done = unpack.unconsumed_tail, unpack.eof
                if done:
                    left, unpack = unpack.unused_data.lstrip(b"\0"), zlib.decompressobj(31)
    except zlib.error as error:
        raise ProfileUnreadable(str(path), f"damaged gzip ({error})", AGAIN) from error
    if not done:
        raise ProfileUnreadable(str(path), CUT, AGAIN)


def _decode(data: bytes) -> tuple[Trace, int]:
    try:
        return msgspec.json.decode(data, type=Trace), 0
    except msgspec.ValidationError:
        return _loosely(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "truncated" in str(error):
            raise
        mended = WORDS.sub(rb"\1null", data.decode("utf-8", "replace").encode())
        return _loosely(mended)


def _loosely(data: bytes) -> tuple[Trace, int]:
    """Event by event, so that a malformed one costs only itself."""
    loose = msgspec.json.decode(data, type=_Loose)
    decoder, good = msgspec.json.Decoder(Event), []
    for raw in loose.traceEvents:
        try:
            good.append(decoder.decode(raw))
        except (msgspec.DecodeError, ArithmeticError, ValueError):
            continue
    head = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    head["traceEvents"] = msgspec.Raw(b"[]")
    trace = msgspec.json.decode(msgspec.json.encode(head), type=Trace)
    trace.traceEvents = good
    return trace, len(loose.traceEvents) - len(good)


def _too_large(path: Path) -> ProfileUnreadable:
    return ProfileUnreadable(str(path), "more than 2 GB of JSON", FEWER)


def _something_else(data: bytes) -> tuple[str, str]:
    """What JSON without a list of trace events is, and what to do with it."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if isinstance(found, dict) and "unstall_version" in found:
        return "a report of unstall, not a profile", "Compare it with another one: unstall compare BEFORE AFTER"
    if isinstance(found, list) and found and isinstance(found[0], dict) and "ph" in found[0]:
        return "a bare list of Chrome trace events, not a trace of PyTorch's profiler", AGAIN
    keys = ", ".join(repr(str(k)[:30]) for k in list(found)[:4]) if isinstance(found, dict) else ""
    what = f"JSON of something else (keys {keys})" if keys else "JSON of something else"
    return what, "Known: what prof.export_chrome_trace(FILE) of torch.profiler writes, .gz or not"


def _other_tool(trace: Trace) -> tuple[str, str]:
    names = {str(e.args.name) for e in trace.traceEvents if e.ph == "M" and e.name == "process_name" and e.args}
    hint = "Profile the program itself: unstall run -- python train.py"
    if any(n.startswith(("/device:", "/host:")) for n in names):
        return "a Chrome trace of JAX's or TensorFlow's profiler, which has no launch calls in it", hint
    return "a Chrome trace, but not one of PyTorch's profiler", hint
