"""Recording inside a process that goes on: as often as wanted, and nothing stays behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import unstall
from unstall.collect import builtin
from unstall.instrument import importhook, recorder, sink, steps
from unstall.instrument.options import Options


def test_a_clock_for_a_block_leaves_the_one_outside_alone(tmp_path: Path) -> None:
    before = steps._clock, steps.timed, steps.by_hand
    with steps.clocked(Options()) as clock:
        assert steps.clock() is clock and steps.timed
        with unstall.step(0), unstall.step(1):
            assert clock.index == 1
    assert (steps._clock, steps.timed, steps.by_hand) == before


def test_what_has_not_been_imported_in_the_block_is_forgotten() -> None:
    called: list[str] = []
    importhook.when_imported("xdrlib_no_such", lambda _: called.append("outside"))
    try:
        with importhook.for_now():
            importhook.when_imported("xdrlib_no_such", lambda _: called.append("inside"))
            importhook.when_imported("another_no_such", lambda _: called.append("inside"))
        assert len(importhook._waiting["xdrlib_no_such"]) == 1 and "another_no_such" not in importhook._waiting
    finally:
        importhook._waiting.pop("xdrlib_no_such", None)


def test_two_recordings_in_one_process(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with builtin.recording(tmp_path / f"{name}.sqlite") as made, unstall.annotate(name):
            assert sink.out is not None
        assert made.sqlite is not None and made.notes == []
        assert [r.name for r in unstall.report_of(made.sqlite).ranges or []] == [name]
    assert sink.out is None and recorder._recorder is None


def test_chosen_steps_tell_the_time_of_those_before(tmp_path: Path) -> None:
    with builtin.recording(tmp_path / "a.sqlite", steps=(12, 24)) as made:
        for i in range(30):
            with unstall.step(i), unstall.annotate("work"):
                sum(range(20_000))
    assert made.sqlite is not None
    report = unstall.report_of(made.sqlite)
    assert report.steps[0].count == 12 and report.steps[0].unprofiled_ns
    assert {r.name: r.instances for r in report.ranges or []}["work"] == 12


def test_steps_that_never_come_are_said(tmp_path: Path) -> None:
    with builtin.recording(tmp_path / "a.sqlite", steps=(5, 9)) as made:
        pass
    assert made.sqlite is None
    assert [note.code for note in made.notes][-1] == "range-never-hit"


def test_an_error_in_the_block_loses_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyError),
        builtin.recording(tmp_path / "a.sqlite") as made,
        unstall.annotate("outer"),
        unstall.annotate("raises"),
    ):
        raise KeyError
    assert made.sqlite is not None
    assert {r.name for r in unstall.report_of(made.sqlite).ranges or []} == {"outer", "raises"}


@pytest.mark.live
def test_torch_is_what_it_was(tmp_path: Path) -> None:
    """Whether it was there before or came in the block; and without a block nothing is hooked when it comes."""
    pytest.importorskip("torch", reason="torch is not installed")
    script = f"""
        import sys
        from pathlib import Path
        import unstall
        from unstall.collect import builtin
        from unstall.instrument import importhook

        with builtin.recording(Path({str(tmp_path)!r}) / "none.sqlite", auto=True):
            pass
        assert "torch" not in importhook._waiting, "what comes later is none of ours"

        def loop():
            import torch
            from torch import nn
            model, data = nn.Linear(8, 2), torch.utils.data.TensorDataset(torch.randn(320, 8))
            optimizer = torch.optim.SGD(model.parameters(), 1e-3)
            for (x,) in torch.utils.data.DataLoader(data, batch_size=16):
                loss = model(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        def state():
            import torch
            optim = sys.modules["torch.optim.optimizer"]
            loader = torch.utils.data.dataloader
            return (torch.nn.Module.__call__, torch.autograd.backward, torch.save, vars(torch.Tensor).get("to"),
                    loader.DataLoader.__iter__, loader._BaseDataLoaderIter.__next__,
                    dict(optim._global_optimizer_pre_hooks), dict(optim._global_optimizer_post_hooks))

        for i in range(2):
            with builtin.recording(Path({str(tmp_path)!r}) / f"{{i}}.sqlite", auto=True) as made:
                loop()
            names = {{r.name: r.instances for r in unstall.report_of(made.sqlite).ranges}}
            assert names["forward"] == names["backward"] == names["optimizer"] == names["step_*"] == 20, names
            now = state()
            assert not any(hasattr(f, "__wrapped__") for f in now[1:3] + now[4:6]) and not now[6] and not now[7]
            assert "unstall" not in now[0].__code__.co_filename and now[3] is None
        print("as it was")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("as it was\n"), done.stderr
