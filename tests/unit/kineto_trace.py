"""Writes a profile as PyTorch's profiler would: the text that Kineto's logger prints, for tests and benchmarks.

Field names, nesting and number formats are those of ``libkineto/src/output_json.cpp`` and ``CuptiActivity.cpp`` and of
traces that torch 2.11 wrote on an H200: microseconds with three decimals, GPU events under (device, stream).
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from unstall.model import Profile, pid_of, tid_of

BASE_NS = 1_790_857_026_000_000_000
LATER_NS = 5_336_468_184_253_617
"""How far behind ``baseTimeNanoseconds`` a capture begins: more digits than a double holds in microseconds."""
MARK = "\ue000"
MEMORY = {"pageable": "Pageable", "pinned": "Pinned", "device": "Device", "managed": "Managed", "array": "Array"}
SYNC = {"stream": "Stream Synchronize", "context": "Context Synchronize", "event": "Event Synchronize",
        "stream_wait_event": "Stream Wait Event"}  # fmt: skip


def events(profile: Profile) -> list[dict[str, Any]]:
    """Complete events of every table that Kineto has a category for."""
    out = [*_host(profile), *_device(profile)]
    pids = {e["pid"] for e in out if e["cat"] in ("user_annotation", "cpu_op", "cuda_runtime")}
    names = [
        {"ph": "M", "name": "process_name", "ts": _us(0), "pid": p, "tid": 0, "args": {"name": "python3"}} for p in pids
    ]
    names += [
        {"ph": "M", "name": "thread_name", "ts": _us(0), "pid": p, "tid": p, "args": {"name": f"thread {p} (python3)"}}
        for p in pids
    ]
    return names + out


def trace(profile: Profile, **facts: Any) -> dict[str, Any]:
    """The whole document; ``facts`` are added to its head."""
    gpus = [] if profile.gpus is None else profile.gpus.to_dicts()
    properties = [
        {"id": g["device"], "name": g["name"], "totalGlobalMem": g["memory_bytes"], "computeMajor": g["compute_major"],
         "computeMinor": g["compute_minor"], "numSms": g["sm_count"], "warpSize": 32}
        for g in gpus
    ]  # fmt: skip
    head = {"schemaVersion": 1, "deviceProperties": properties, "cupti_version": 26, "host_name": "gpu-1"}
    spans = [{"ph": "X", "cat": "Trace", "ts": _us(0), "dur": _us(1, 0), "pid": "Spans", "tid": "PyTorch Profiler",
              "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
             {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": _us(1)}]  # fmt: skip
    body = {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS, "traceEvents": [*events(profile), *spans]}
    return {**head, **facts, **body}


def write(profile: Profile, path: Path, **facts: Any) -> Path:
    """The document as a file; packed where its name ends in ``.gz``."""
    text = dumps(trace(profile, **facts)).encode()
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def dumps(document: dict[str, Any]) -> str:
    """JSON laid out as Kineto does it; marked text becomes a number, digit by digit."""
    return re.sub(rf'"{MARK}([\d.]+)"', r"\1", json.dumps(document, indent=2, ensure_ascii=False))


def _us(ns: int, later: int = LATER_NS) -> str:
    """Microseconds with their three decimals, marked as a number for :func:`dumps`."""
    whole, rest = divmod(ns + later, 1000)
    return f"{MARK}{whole}.{rest:03}"


def _span(row: dict[str, Any], cat: str, name: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": _us(row["start"]),
            "dur": _us(row["end"] - row["start"], 0), "args": args}  # fmt: skip


def _host(profile: Profile) -> list[dict[str, Any]]:
    out = []
    for i, r in enumerate([] if profile.ranges is None else profile.ranges.drop_nulls("end").to_dicts(), 1):
        operator = r["domain"] == "torch.ops" or str(r["name"]).startswith("aten::")
        cat = "cpu_op" if operator else "user_annotation"
        out.append(_span(r, cat, r["name"], *_who(r), **{"External id": i, "Record function id": 0, "Ev Idx": i}))
    for r in [] if profile.api is None else profile.api.to_dicts():
        name = str(r["name"]).rpartition("_v")[0] or r["name"]
        args = {"External id": 1, "cbid": 211, "correlation": r["correlation"]}
        out.append(_span(r, "cuda_driver" if name.startswith("cu") and name[2].isupper() else "cuda_runtime", name,
                         *_who(r), **args))  # fmt: skip
    return out


def _who(row: dict[str, Any]) -> tuple[int, int]:
    return pid_of(row["process"]), tid_of(row["thread"])


def _device(profile: Profile) -> list[dict[str, Any]]:
    out = []
    for r in [] if profile.kernels is None else profile.kernels.to_dicts():
        shared = (r["static_smem_bytes"] or 0) + (r["dynamic_smem_bytes"] or 0)
        args = {"queued": 0, **_place(r), "registers per thread": r["registers"], "shared memory": shared,
                "blocks per SM": 1.0, "warps per SM": 4.0, "grid": [r["grid_x"], r["grid_y"], r["grid_z"]],
                "block": [r["block_x"], r["block_y"], r["block_z"]], "est. achieved occupancy %": 50}  # fmt: skip
        args |= {"graph node id": r["graph_node"]} if r["graph_node"] is not None else {}
        out.append(_span(r, "kernel", r["name"], r["device"], r["stream"], **args))
    for r in [] if profile.copies is None else profile.copies.to_dicts():
        ends = f"{MEMORY.get(r['source'], 'Unknown')} -> {MEMORY.get(r['destination'], 'Unknown')}"
        args = {**_place(r), "bytes": r["bytes"], "memory bandwidth (GB/s)": 12.5}
        out.append(_span(r, "gpu_memcpy", f"Memcpy {r['kind']} ({ends})", r["device"], r["stream"], **args))
    for r in [] if profile.memsets is None else profile.memsets.to_dicts():
        args = {**_place(r), "bytes": r["bytes"], "memory bandwidth (GB/s)": 1.5}
        out.append(_span(r, "gpu_memset", f"Memset ({MEMORY.get(r['memory'], 'Unknown')})", r["device"], r["stream"],
                         **args))  # fmt: skip
    for r in [] if profile.syncs is None else profile.syncs.to_dicts():
        kind = SYNC.get(r["kind"], "Unknown")
        args = {"cuda_sync_kind": kind, **_place(r)}
        out.append(_span(r, "cuda_sync", kind, r["device"] or 0, -1, **args))
    return out


def _place(row: dict[str, Any]) -> dict[str, Any]:
    return {"device": row["device"], "context": row["context"], "stream": row["stream"],
            "correlation": row["correlation"]}  # fmt: skip
