"""What a rule says of copies and of counters is what the capture tells, and no more."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from unstall.analyze import analyze
from unstall.diagnose import compute_bound, diagnose, exposed_copy, pageable_copy
from unstall.model import Finding, Profile
from unstall.testing import TraceBuilder, ms, us


def found(profile: Profile, code: str) -> Finding:
    report = diagnose(analyze(profile))
    assert "rule-crashed" not in {w.code for w in report.warnings}
    return next(f for f in report.findings if f.code == code)


def told(finding: Finding, part: str) -> list[float | None]:
    return [e.value for e in finding.evidence if part in e.text]


def copies(rule: object, **columns: object) -> Profile:
    """The rule's own fault, with some columns of its copies changed."""
    t = TraceBuilder()
    rule.fires(t)  # type: ignore[attr-defined]
    frame = t.profile().copies
    assert frame is not None
    return replace(
        t.profile(), copies=frame.with_columns(pl.lit(v, frame[c].dtype).alias(c) for c, v in columns.items())
    )


@pytest.mark.parametrize("source", ["unknown", None])
def test_copies_of_unknown_memory_are_not_called_pinned(source: str | None) -> None:
    finding = found(copies(exposed_copy, source=source), "exposed-copy")
    assert "inned" not in finding.title + " ".join(e.text for e in finding.evidence)
    assert told(finding, "does not tell from which host memory") == [1.0] and finding.confidence == "low"


def test_nothing_is_said_to_be_unknown_of_pinned_copies() -> None:
    finding = found(copies(exposed_copy), "exposed-copy")
    assert not told(finding, "does not tell") and finding.confidence == "medium"


@pytest.mark.parametrize(("rule", "code"), [(exposed_copy, "exposed-copy"), (pageable_copy, "pageable-copy")])
def test_unknown_bytes_are_not_zero_bytes(rule: object, code: str) -> None:
    finding = found(copies(rule, bytes=None), code)
    assert told(finding, "of a size that the capture does not tell") == [1.0] and not told(finding, "bytes")
    assert finding.predicted_step_ns is None or finding.predicted_step_ns > 0


def test_the_compute_stream_is_one_of_its_gpu() -> None:
    """Copies in stream 7 of the second GPU are not in stream 7 of the first, which computes."""
    t = TraceBuilder()
    for i in range(12):
        at = ms(7 * i)
        t.range(f"step_{i}", at, at + ms(7))
        t.copy("HtoD", at, us(10), source="pinned", copy_start=at + us(30), copy_dur=ms(2), device=0, context=2)
        t.launch("gemm", at + us(40), kernel_start=at + ms(2.1), kernel_dur=ms(4.8), device=0, context=1)
        t.sync("stream", at + us(60), at + ms(6.95))
    assert told(found(t.profile(), "exposed-copy"), "in the stream that computes") == [0.0]


def test_counters_are_of_the_steady_steps_and_of_this_gpu() -> None:
    t = TraceBuilder()
    t.gpu(1)
    compute_bound.fires(t)
    whole = t.profile()
    assert whole.kernels is not None
    end = int(whole.kernels["end"].max())  # type: ignore[arg-type]
    for at in range(0, 2 * end, us(100)):
        t.metric("Tensor Active [Throughput %]", at, 80.0 if at <= end else 0.0, device=0)
        t.metric("Tensor Active [Throughput %]", at, 0.0, device=1)
    report = diagnose(analyze(t.profile()))
    finding = next(f for f in report.findings if f.code == "compute-bound")
    step = next(m for m in report.gpu_metrics or [] if m.scope == "step")
    assert told(finding, "tensor cores active 80 %") == [step.tensor_active_percent]
