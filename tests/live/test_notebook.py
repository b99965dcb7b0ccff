"""The magics in a real kernel: what a cell shows, keeps and leaves behind."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from unstall import demo
from unstall.nsys.discover import find_nsys

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytestmark = [
    pytest.mark.live,
    # of Jupyter's own parts, which close their sockets when they are collected
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STEPS = """\
%%unstall -o report --name first
import time
for i in range(12):
    with unstall.step(i):
        with unstall.annotate("load <b>"):
            time.sleep(0.01)
        with unstall.annotate("work"):
            sum(range(20_000))
print("said by the cell")
"""
FAILS = """\
%%unstall -o partly
for i in range(8):
    with unstall.step(i):
        time.sleep(0.01)
    if i == 6:
        raise ValueError("seven are enough")
"""
STATE = """\
import threading
from unstall.instrument import importhook, recorder, sink, steps
assert sink.out is None and recorder._recorder is None and steps._clock is None and not steps.timed
assert "torch" not in importhook._waiting
assert not [t.name for t in threading.enumerate() if t.name.startswith("unstall")], threading.enumerate()
print("nothing left")
"""


def run(cells: Sequence[str], monkeypatch: pytest.MonkeyPatch, *, kernel: str = "python3") -> list[Any]:
    """Outputs of each cell, errors included."""
    import nbformat

    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # ipykernel does not catch what children print otherwise
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, kernel_name=kernel).execute()
    return [cell.outputs for cell in notebook.cells]


def said(outputs: Any, stream: str = "stdout") -> str:
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == stream)


def shown(outputs: Any, kind: str = "text/html") -> str:
    return "".join(o.data.get(kind, "") for o in outputs if o.output_type in ("display_data", "execute_result"))


def test_cells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept = tmp_path / "kept.sqlite"
    with demo.recorded() as path:
        loaded, first, variable, state, fails, partly, line, misused, awaits, short, help_, keep = run(
            [
                "%load_ext unstall\nimport unstall",
                STEPS,
                "print(report.steps[0].count, report.table('ranges')['name'].to_list())",
                STATE,
                FAILS,
                "partly",
                f"%unstall {path} --unprofiled-ms 26.99",
                "%%unstall --steps nonsense\n1",
                "%%unstall\nawait something()",
                "%%unstall\nx = 1",
                "%%unstall --help\nx = 1",
                f"%%unstall --quiet --save {kept}\nwith unstall.annotate('kept'):\n    pass",
            ],
            monkeypatch,
        )
    assert not loaded
    assert said(first) == "said by the cell\n" and "load &lt;b&gt;" in shown(first) and "<b>load" not in shown(first)
    assert re.search("1[0-2] steady steps", shown(first, "text/plain")), "a busy machine may make warm-up of some"
    assert said(variable) == "12 ['step_*', 'load <b>', 'work']\n"
    assert said(state) == "nothing left\n", state
    errors = [o for o in fails if o.output_type == "error"]
    assert [(o.ename, o.evalue) for o in errors] == [("ValueError", "seven are enough")] * 2
    assert "seven are enough" in "".join(errors[0].traceback) and not errors[1].traceback, "shown once, as ever"
    assert fails.index(errors[0]) == 0 and "STEP" in shown(fails), "and what was captured is reported"
    assert "STEP" in shown(partly)
    assert "The GPU idles 94 %" in shown(line)
    assert "not of the form A:B" in said(misused, "stderr") and "Traceback" not in said(misused, "stderr")
    assert "cannot be collected" in said(awaits, "stderr")
    assert "nothing was recorded" in said(short, "stderr") and not shown(short)
    assert "--auto" in said(help_)
    assert not shown(keep) and kept.stat().st_size > 0


def test_auto_and_chosen_steps_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    loop = """\
import torch
from torch import nn
model = nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
data = torch.utils.data.TensorDataset(torch.randn(800, 32), torch.randn(800, 4))
for x, y in torch.utils.data.DataLoader(data, batch_size=32):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ask = "s = report.steps[0]\nprint(s.count, s.unprofiled_ns is not None, sorted(report.table('ranges')['name']))"
    _, collected, told, state, clean = run(
        [
            "%load_ext unstall",
            f"%%unstall --auto --steps 8:20 -o report\n{loop}",
            ask,
            STATE,
            "assert 'unstall' not in nn.Module.__call__.__code__.co_filename",
        ],
        monkeypatch,
    )
    assert "forward" in shown(collected)
    assert said(told) == "12 True ['backward', 'data_load', 'forward', 'optimizer', 'step_*']\n"
    assert said(state) == "nothing left\n" and not clean


def test_a_kernel_under_nsys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One session, a capture a cell."""
    from unstall.notebook import kernel

    tools = [t for t in find_nsys() if not t.error]
    if not tools or tools[0].missing:
        pytest.skip("no nsys that can capture and import on this machine")
    kernel.install(str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", os.fspath(tmp_path / "share" / "jupyter"))
    _, first, again, state = run(
        [
            "%load_ext unstall\nimport unstall",
            STEPS,
            "%%unstall -o report\nwith unstall.annotate('alone'):\n    time.sleep(0.01)",
            "print(report.profile.producer, sorted(report.table('ranges')['name']))",
        ],
        monkeypatch,
        kernel=kernel.NAME,
    )
    assert "steady steps" in shown(first, "text/plain") and "nsys 20" in shown(first, "text/plain"), first
    assert shown(again)
    assert said(state) == "nsys ['alone', 'unstall_cell']\n"
