"""The timeline: how long it takes to make, how large it is, and how smoothly a browser draws it.

`python benchmarks/timeline.py [EVENTS]` makes a training run of that many events (200,000), writes one page and opens
it in headless Chromium, which draws in software on the CPU: a page on a real screen is faster. With `--big` it also
times making a timeline and a Perfetto trace of ten million events.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
from driver import Browser

import unstall
from unstall.analyze.timeline import timeline
from unstall.analyze.tracks import tracks
from unstall.model import TABLES, Meta, Profile, Timeline
from unstall.report import perfetto

PROCESS = (1 << 48) | (100 << 24)
MAIN, HELPER = PROCESS | 100, PROCESS | 101
PERIOD = 30_000_000
ASSETS = Path(perfetto.__file__).parent / "assets"


def table(kind: str, rows: int, /, **columns: object) -> pl.DataFrame:
    """A table of the model; columns that are left out are null."""
    values = {c: columns.get(c, pl.repeat(None, rows, eager=True)) for c in TABLES[kind]}
    frame = pl.DataFrame({c: v if isinstance(v, pl.Series | np.ndarray) else [v] * rows for c, v in values.items()})
    return frame.cast(TABLES[kind])


def profile(events: int, steps: int) -> Profile:
    """A run of `steps` steps with about `events` events: ranges five deep, calls, kernels in three streams, GIL."""
    each = events // steps // 5
    n = each * steps
    rng = np.random.default_rng(1)
    begin = np.repeat(np.arange(steps) * PERIOD, each) + np.tile(np.linspace(0, PERIOD * 0.95, each), steps).astype(
        np.int64
    )
    gap = int(PERIOD * 0.95 / each)
    name = pl.Series([f"void at::native::kernel_{i}<float, {i}>(T{i})" for i in range(60)])
    which = rng.integers(0, 60, n)
    at = begin + 3 * gap
    stream = np.where(rng.random(n) < 0.9, 7, np.where(rng.random(n) < 0.5, 13, 20))
    kernel_end = np.minimum(at + rng.integers(gap // 5 + 1, gap, n), at + gap)
    ids = np.arange(n)
    calls = table("api", n, start=begin, end=begin + gap // 2 + 1, process=PROCESS, thread=MAIN, correlation=ids,
                  name="cudaLaunchKernel_v7000")  # fmt: skip
    shape = dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), 1) | {"block_x": 128, "registers": 32}
    kernels = table(
        "kernels", n, start=at, end=kernel_end, process=PROCESS, device=0, context=1, stream=stream, correlation=ids,
        name=name.gather(which), short_name="kernel", grid_x=which + 1, **shape,
    )  # fmt: skip
    gil = table("gil", n, start=begin, end=begin + gap // 3 + 1, process=PROCESS, thread=HELPER, state="holding")
    osrt = table("osrt", n, start=begin, end=begin + gap // 2, process=PROCESS, thread=HELPER, name="futex")
    whole = np.arange(steps) * PERIOD
    user = ranges(whole, whole + int(PERIOD * 0.97), pl.Series([f"step_{i}" for i in range(steps)]))
    inner = ranges(begin, begin + gap - gap // 10, pl.Series([f"aten::op{i}" for i in range(40)]).gather(which % 40))
    meta = Meta(path="bench", end_ns=steps * PERIOD)
    return Profile(
        meta=meta, ranges=pl.concat([user, inner]).sort("start"), api=calls, kernels=kernels, gil=gil, osrt=osrt
    )


def ranges(start: np.ndarray, end: np.ndarray, name: pl.Series) -> pl.DataFrame:
    who = {"process": PROCESS, "thread": MAIN, "end_thread": MAIN}
    return table("ranges", len(start), start=start, end=end, name=name, domain="", style="push_pop", **who)


def page(made: Timeline) -> str:
    data = msgspec.json.encode(made).replace(b"<", rb"\u003c").decode()
    css, js = ((ASSETS / f"timeline.{kind}").read_text() for kind in ("css", "js"))
    return f"""<!doctype html><meta charset="utf-8"><style>{css}</style><div id="tl"></div>
<script type="application/json" id="unstall-timeline">{data}</script><script>{js}</script><script>
const data = JSON.parse(document.getElementById("unstall-timeline").textContent);
window.view = UnstallTimeline.mount(document.getElementById("tl"), data, {{theme: "dark", height: 600}});
requestAnimationFrame(() => requestAnimationFrame(() => {{ window.ready = performance.now(); }}));
</script>"""


PAN = """new Promise(done => {
  view.zoomTo(%s, %s, true);
  const times = [], s = view.state(), span = s.b - s.a; let last = performance.now(), i = 0;
  const frame = now => {
    times.push(now - last); last = now;
    const by = span * 0.01 * Math.sin(i / 20);
    const t = view.state(); view.zoomTo(t.a + by, t.b + by, true);
    if (++i < 120) requestAnimationFrame(frame);
    else { times.shift(); times.sort((a, b) => a - b);
      const mean = times.reduce((a, b) => a + b) / times.length;
      done([1000 / mean, times[Math.floor(times.length * 0.95)], view.state().last_ms]); }
  };
  requestAnimationFrame(frame);
})"""


def browse(made: Timeline) -> None:
    text = page(made)
    print(f"page {len(text) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as room, Browser() as browser:
        file = Path(room) / "page.html"
        file.write_text(text, encoding="utf-8")
        shown = browser.open(file, 1400, 900)
        shown.until("window.ready")
        print(
            f"interactive after {shown.evaluate('window.ready'):.0f} ms, {shown.evaluate('view.state().events'):,} rows"
        )
        a, b = made.home
        views = {
            "the step": (a, b),
            "ten steps": (a, a + 10 * (b - a)),
            "the whole run": (made.begin_ns, made.end_ns),
            "1 ms": (a, a + 1e6),
        }
        for label, (low, high) in views.items():
            fps, slow, draw = shown.evaluate(PAN % (low, high), timeout=120)
            print(
                f"pan over {label}: {fps:.0f} frames a second, 95 % within {slow:.0f} ms, drawing alone {draw:.1f} ms"
            )
        print("console:", shown.console)


def make(events: int) -> Timeline:
    analysis = unstall.analyze(profile(events, 40))
    report = unstall.diagnose(analysis)
    began = time.perf_counter()
    made = timeline(analysis, report)
    assert made is not None
    size = len(msgspec.json.encode(made).replace(b"<", rb"\u003c"))
    rows = sum(len(t.start) for t in made.tracks)
    print(f"timeline of {events:,} events: {time.perf_counter() - began:.2f} s, {rows:,} rows, {size / 1e6:.2f} MB")
    return made


def export(events: int) -> None:
    analysis = unstall.analyze(profile(events, 400))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    with tempfile.TemporaryFile() as file:
        perfetto.write(tracks(analysis), file)
        size = file.tell()
    took = time.perf_counter() - began
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"Perfetto trace of {events:,} events: {took:.1f} s, {size / 1e6:.0f} MB, {more:.0f} MB more than before")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="?", type=int, default=200_000)
    parser.add_argument("--big", action="store_true")
    given = parser.parse_args()
    browse(make(given.events))
    if given.big:
        make(10_000_000)
        export(10_000_000)
