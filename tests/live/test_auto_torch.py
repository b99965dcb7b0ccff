"""--auto on real PyTorch: ranges and steps of real loops, the same losses to the last bit, programs left alone."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import unstall
from unstall.collect import builtin
from unstall.instrument import AUTO, PARTS, Options, command, environment, steplog
from unstall.instrument.options import STEP_LOG_NAME

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

HEAD = """
    import torch, torch.nn as nn, torch.nn.functional as F
    from torch.utils.data import DataLoader, Dataset, TensorDataset
    torch.manual_seed(0); torch.set_num_threads(1)
    class Numbers(Dataset):
        def __len__(self): return 32
        def __getitem__(self, i):
            g = torch.Generator().manual_seed(i)
            return torch.randn(16, generator=g), torch.randn(4, generator=g)
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
"""
TAIL = "\nprint('LOSSES', *(float(l).hex() for l in losses))\n"


@dataclass(frozen=True)
class Ran:
    """One script, as it is and instrumented."""

    profile: unstall.Profile
    log: steplog.StepLog | None
    losses: list[float]

    @property
    def ranges(self) -> Counter[str]:
        assert self.profile.ranges is not None
        return Counter(self.profile.ranges["name"].cast(pl.String).to_list())

    @property
    def steps(self) -> list[str]:
        return sorted((n for n in self.ranges if n.startswith("step_")), key=lambda n: int(n[5:]))


Both = Callable[..., Ran]


@pytest.fixture
def both(tmp_path: Path) -> Both:
    """Run a script plainly and with --auto under the built-in collector; its losses must be the same, bit for bit."""

    def run(
        body: str, *, launcher: tuple[str, ...] = (), head: str = HEAD, parts: tuple[str, ...] = PARTS, **options: Any
    ) -> Ran:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(head) + textwrap.dedent(body) + TAIL)
        line = [sys.executable, *launcher, str(script)]
        plain = execute(line, dict(os.environ), tmp_path)
        asked = Options(parts=parts, record=str(tmp_path / "parts"), step_log=str(tmp_path / STEP_LOG_NAME), **options)
        auto = execute(command(line, asked), environment(asked), tmp_path)
        assert auto.stdout == plain.stdout, "the program says the same, to the last bit of its losses"
        assert "unstall" not in auto.stderr, auto.stderr
        builtin.merge(tmp_path / "parts", tmp_path / "profile.sqlite")
        log = steplog.main_log(steplog.read(str(tmp_path / STEP_LOG_NAME)))
        said = next((line.split()[1:] for line in plain.stdout.splitlines() if line.startswith("LOSSES")), [])
        return Ran(unstall.load(tmp_path / "profile.sqlite"), log, [float.fromhex(x) for x in said])

    return run


def execute(line: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**env, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(line, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_plain_loop(both: Both) -> None:
    ran = both("""
        for epoch in range(2):
            for x, y in DataLoader(Numbers(), batch_size=4, shuffle=True):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
            with torch.no_grad():
                for x, y in DataLoader(Numbers(), batch_size=16): model(x)
        torch.save(model.state_dict(), "model.pt")
    """)
    assert ran.steps == [f"step_{i}" for i in range(16)]
    assert {n: ran.ranges[n] for n in ("forward", "forward_no_grad", "backward", "optimizer", "checkpoint")} == {
        "forward": 16, "forward_no_grad": 4, "backward": 16, "optimizer": 16, "checkpoint": 1,
    }  # fmt: skip
    assert ran.ranges["data_load"] == 16 + 4 + 4 + 4, "draws, iterators made, and draws that find the end"
    assert ran.log is not None and ran.log.source == "auto"
    assert ran.log.losses == [[i, loss] for i, loss in enumerate(ran.losses)]


def test_phases_lie_in_their_step_in_order(both: Both) -> None:
    ran = both("""
        for x, y in DataLoader(Numbers(), batch_size=4):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            losses.append(loss.item())
    """)
    assert ran.profile.ranges is not None
    rows = ran.profile.ranges.with_columns(pl.col("name").cast(pl.String)).sort("start")
    step = rows.filter(pl.col("name") == "step_3").row(0, named=True)
    inside = rows.filter((pl.col("start") >= step["start"]) & (pl.col("end") <= step["end"]))
    assert inside["name"].to_list() == ["step_3", "data_load", "forward", "backward", "optimizer"]
    after = rows.filter(pl.col("name") == "step_4").row(0, named=True)
    assert after["start"] >= step["end"]


def test_report_of_a_real_loop(both: Both, tmp_path: Path) -> None:
    both("""
        import time
        class Slow(Numbers):
            def __getitem__(self, i):
                time.sleep(0.005)
                return super().__getitem__(i)
        for epoch in range(2):
            for x, y in DataLoader(Slow(), batch_size=4):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
    """)
    report = unstall.report_of(tmp_path / "profile.sqlite")
    assert report.ranges is not None
    assert next(row.name for row in report.ranges if not row.wrapper) == "data_load"
    assert report.steps[0].source == "range:step_*"
    assert report.findings[0].code == "host-data-loading" and report.findings[0].where.range == "data_load"


def test_gradient_accumulation(both: Both) -> None:
    ran = both("""
        for i, (x, y) in enumerate(DataLoader(Numbers(), batch_size=4)):
            loss = F.mse_loss(model(x), y)
            loss.backward()
            losses.append(loss.item())
            if i % 4 == 3: optimizer.step(); optimizer.zero_grad()
    """)
    assert ran.steps == ["step_0", "step_1"]
    assert ran.log is not None and [step for step, _ in ran.log.losses] == [0] * 4 + [1] * 4


def test_closures_stay_outside_the_optimizer(both: Both) -> None:
    ran = both("""
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        for x, y in DataLoader(Numbers(), batch_size=16):
            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                losses.append(loss.item())
                return loss
            optimizer.step(closure)
    """)
    assert ran.ranges["forward"] == ran.ranges["backward"] == len(ran.losses) >= 4
    assert ran.steps == ["step_0", "step_1"]
    assert ran.profile.ranges is not None
    rows = ran.profile.ranges.with_columns(pl.col("name").cast(pl.String))
    optimizers = rows.filter(pl.col("name") == "optimizer")
    for start, end in rows.filter(pl.col("name") == "forward").select("start", "end").iter_rows():
        assert optimizers.filter((pl.col("start") <= start) & (pl.col("end") >= end)).is_empty()


def test_script_with_its_own_ranges_gets_no_second_ones(both: Both) -> None:
    ran = both("""
        import unstall
        it = iter(DataLoader(Numbers(), batch_size=4))
        for i in range(8):
            torch.cuda.nvtx.range_push(f"step_{i}")
            with unstall.annotate("data_load"): x, y = next(it)
            with torch.cuda.nvtx.range("forward"): loss = F.mse_loss(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            losses.append(loss.item())
            torch.cuda.nvtx.range_pop()
    """.replace("torch.cuda.nvtx.range_p", "mark.range_p").replace("torch.cuda.nvtx.range(", "mark.range("),
        head=HEAD + NVTX)  # fmt: skip
    assert ran.ranges["forward"] == ran.ranges["backward"] == 8
    assert ran.ranges["data_load"] == 9, "eight of the script, one of making the iterator"
    assert ran.steps == [f"step_{i}" for i in range(8)]


NVTX = """
    mark = torch.cuda.nvtx
    try: mark.range_pop()
    except RuntimeError:  # a CPU build has no NVTX of its own: plainly run, it does without
        import contextlib
        class mark:
            range = staticmethod(lambda name: contextlib.nullcontext())
            range_push = range_pop = staticmethod(lambda *a: 0)
"""


def test_step_by_hand_is_believed(both: Both) -> None:
    ran = both("""
        import unstall
        it = iter(DataLoader(Numbers(), batch_size=4))
        for i in range(3):
            with unstall.step(i):
                for _ in range(2):  # two updates a step: this script knows better
                    x, y = next(it); loss = F.mse_loss(model(x), y)
                    optimizer.zero_grad(); loss.backward(); optimizer.step()
                    losses.append(loss.item())
    """)
    assert ran.steps == ["step_0", "step_1", "step_2"] and ran.log is not None and ran.log.source == "step"
    assert [step for step, _ in ran.log.losses] == [0, 0, 1, 1, 2, 2]


def test_window_and_the_steps_before_it(both: Both) -> None:
    ran = both(
        """
        for epoch in range(4):
            for x, y in DataLoader(Numbers(), batch_size=4):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
        """,
        steps=(12, 15),
        window="record",
    )
    assert ran.steps == ["step_12", "step_13", "step_14"]
    assert ran.ranges["forward"] == 3
    assert ran.log is not None and (ran.log.opened, ran.log.closed, len(ran.log.samples_ns)) == (True, True, 12)
    assert len(ran.log.losses) == 32, "losses are kept throughout"
    assert ran.log.unprofiled_ns() is not None


def test_a_loop_that_is_known_rests_until_the_window(both: Both) -> None:
    """How often our functions run in six steps, counted by the script: one of them, once a step."""
    ran = both(
        """
        import os, sys
        from collections import Counter
        ours = Counter()
        def count(frame, event, _):
            code = frame.f_code
            if event == "call" and os.sep + os.path.join("unstall", "instrument") in code.co_filename:
                ours[code.co_name] += 1
        step = 0
        for epoch in range(9):
            for x, y in DataLoader(Numbers(), batch_size=4):
                sys.setprofile(count if 25 <= step < 31 else None)
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
                step += 1
            with torch.no_grad():
                for x, y in DataLoader(Numbers(), batch_size=16): model(x)
        del ours["__call__"], ours["__iter__"]  # in place of torch's own frame; once an epoch
        print("too many" if ours not in (Counter(), Counter(after=6)) else "few")
        """,
        parts=AUTO,
        steps=(60, 64),
        window="record",
    )
    assert ran.steps == ["step_60", "step_61", "step_62", "step_63"]
    assert ran.ranges["forward"] == ran.ranges["backward"] == ran.ranges["optimizer"] == 4
    assert ran.log is not None and ran.log.closed and ran.log.taken == 72
    assert 60 - 8 <= len(ran.log.samples_ns) <= 60


def test_resting_compiles_nothing_anew(both: Both) -> None:
    ran = both(
        """
        from torch._dynamo.utils import counters
        model = torch.compile(model, backend="eager")
        for epoch in range(6):
            for x, y in DataLoader(Numbers(), batch_size=4):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
        print(counters["frames"]["total"], counters["stats"]["unique_graphs"])
        """,
        parts=AUTO,
        steps=(40, 44),
        window="record",
    )
    assert ran.ranges["backward"] == 4


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_loader_workers(both: Both, start_method: str) -> None:
    ran = (
        both(f"""
        import nvtx
        class Decoded(Numbers):
            def __getitem__(self, i):
                with nvtx.annotate("decode"): return super().__getitem__(i)
        def main():
            for x, y in DataLoader(Decoded(), batch_size=4, num_workers=2, multiprocessing_context="{start_method}"):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
        if __name__ == "__main__": main()
        else: print = lambda *a: None
    """)
        if importlib.util.find_spec("nvtx")
        else pytest.skip("nvtx is not installed")
    )
    assert ran.ranges["decode"] == 32 and ran.ranges["forward"] == 8
    assert len(ran.steps) == 8
    assert ran.profile.ranges is not None
    decode = ran.profile.ranges.filter(pl.col("name").cast(pl.String) == "decode")
    assert decode["process"].n_unique() == 2


def test_modules_in_a_dataset_are_no_forward_pass(both: Both) -> None:
    ran = both("""
        class Augmented(Numbers):
            augment = nn.Dropout(0.1)
            def __getitem__(self, i):
                x, y = super().__getitem__(i)
                return self.augment(x), y
        for workers in (0, 1):
            torch.manual_seed(1)
            for x, y in DataLoader(Augmented(), 8, num_workers=workers):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
    """)
    assert ran.ranges["forward"] == 8


def test_copies_to_a_device_that_is_not_there(tmp_path: Path) -> None:
    """What would be a host-to-device copy is one, also when it fails; casts and copies on the host are none."""
    script = tmp_path / "copies.py"
    script.write_text(
        textwrap.dedent("""
        import torch
        x = torch.ones(4)
        x.to(torch.float64); x.to("cpu"); x.to(x); x.to("meta"); x.clone().copy_(x); torch.nn.Linear(2, 2).to("cpu")
        device = torch.device("cuda", 0)
        for call in (lambda: x.to("cuda"), lambda: x.to(device=device), lambda: x.cuda(), lambda: x.to(0)):
            try: call()
            except (AssertionError, RuntimeError): pass
            else: raise SystemExit("there is a GPU")
    """)
    )
    (tmp_path / "anywhere.py").write_text(
        "from unstall.instrument.phases import Phases\ndef start(options): Phases.anywhere = True\n"
    )
    # the plugin must run before torch is imported: sitecustomize calls it, torch comes with the script
    asked = Options(parts=PARTS, record=str(tmp_path / "parts"), plugins=("anywhere:start",))
    env = environment(asked, {**os.environ, "PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""})
    execute([sys.executable, str(script)], env, tmp_path)
    builtin.merge(tmp_path / "parts", tmp_path / "profile.sqlite")
    profile = unstall.load(tmp_path / "profile.sqlite")
    assert profile.ranges is not None
    assert profile.ranges["name"].cast(pl.String).to_list() == ["h2d_transfer"] * 4


COMPILED = """
    import torch._dynamo as dynamo
    data = DataLoader(Numbers(), batch_size=8)
    def loop(model, step=None):
        torch.manual_seed(0)
        for x, y in data:
            loss = F.mse_loss(model(x.to(torch.float32)), y)
            optimizer.zero_grad(); loss.backward(); (step or optimizer.step)()
            losses.append(loss.item())
    def counted(what):
        print(what, dict(dynamo.utils.counters["stats"]), sorted(dynamo.utils.counters["graph_break"].values()))
        dynamo.utils.counters.clear(); dynamo.reset()
"""


@pytest.mark.parametrize(
    "body",
    [
        "loop(torch.compile(model, backend='aot_eager', fullgraph=True)); counted('model')",
        "loop(model, torch.compile(optimizer.step, backend='aot_eager')); counted('optimizer')",
        """
@torch.compile(backend="aot_eager")
def whole(x, y):
    loss = F.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step(); return loss
for x, y in data: losses.append(whole(x, y).item())
counted("whole step")
""",
    ],
    ids=["model", "optimizer", "whole step"],
)
def test_compiled_code_compiles_to_what_it_was(both: Both, body: str) -> None:
    """The script prints how many graphs there were and how often they broke: the same with us and without."""
    ran = both(textwrap.dedent(COMPILED) + body, head=HEAD)
    assert ran.ranges["backward"] == 4


WINDOW = """
from unstall.instrument import AUTO, PARTS, Options, phases
ours = phases.start(Options(parts=PARTS, step_log="steps-{pid}.json"))
ours.anywhere = True
import torch
from torch._dynamo.utils import counters
ours.gate.switch(False)
class Listener:
    def push(self, *_): written.append(_)
    pop = start = end = mark = push
written = []
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
update = torch.compile(lambda: optimizer.step(), backend="eager")
forward = torch.compile(lambda x: model(x.to(torch.float32).to("cpu")).sum(), backend="eager")
def steps():
    for _ in range(4):
        loss = forward(torch.randn(2, 4)); optimizer.zero_grad(); loss.backward(); update()
    return counters["frames"]["total"]
before = steps()
ours.gate.connect(Listener()); ours.gate.switch(True)
print(before > 0, steps() == before, bool(written))
"""


def test_window_that_opens_compiles_nothing_anew(tmp_path: Path) -> None:
    line = [sys.executable, "-c", WINDOW]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["True", "True", "True"]


def test_torchrun(tmp_path: Path) -> None:
    body = """
        import torch.distributed as dist
        from torch.utils.data import DistributedSampler
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in DataLoader(Numbers(), batch_size=4, sampler=DistributedSampler(Numbers())):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            losses.append(loss.item())
        dist.destroy_process_group()
    """
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(HEAD) + textwrap.dedent(body))
    asked = Options(parts=PARTS, record=str(tmp_path / "parts"), step_log=str(tmp_path / STEP_LOG_NAME))
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(script)]
    execute(line, environment(asked), tmp_path)
    logs = steplog.read(str(tmp_path / STEP_LOG_NAME))
    assert [log.rank for log in logs] == [0, 1]
    assert all([step for step, _ in log.losses] == [0, 1, 2, 3] for log in logs)
    builtin.merge(tmp_path / "parts", tmp_path / "profile.sqlite")
    profile = unstall.load(tmp_path / "profile.sqlite")
    assert profile.ranges is not None
    forward = profile.ranges.filter(pl.col("name").cast(pl.String) == "forward")
    assert sorted(forward.group_by("process").len()["len"]) == [4, 4]


# ---- frameworks, each with its real package -----------------------------------------------------------------------


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed")


@needs("lightning")
def test_lightning(both: Both) -> None:
    ran = both("""
        import logging; logging.disable(logging.WARNING)
        import lightning
        class Module(lightning.LightningModule):
            def __init__(self): super().__init__(); self.net = model
            def training_step(self, batch, i):
                loss = F.mse_loss(self.net(batch[0]), batch[1]); losses.append(loss.item()); return loss
            def validation_step(self, batch, i): self.log("v", F.mse_loss(self.net(batch[0]), batch[1]))
            def configure_optimizers(self): return torch.optim.AdamW(self.parameters(), 1e-2)
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, accumulate_grad_batches=2)
        trainer.fit(Module(), DataLoader(Numbers(), 4, shuffle=True), DataLoader(Numbers(), 16))
        trainer.save_checkpoint("model.ckpt")
    """)
    assert ran.steps == [f"step_{i}" for i in range(8)]
    assert ran.ranges["forward"] == ran.ranges["backward"] == 16 and ran.ranges["optimizer"] >= 8
    assert ran.ranges["forward_no_grad"] == 2 + 2 * 2, "the sanity check, and two epochs' validation"
    assert ran.ranges["checkpoint"] == 1
    assert ran.log is not None and [s for s, _ in ran.log.losses] == [i // 2 for i in range(16)]


@needs("transformers")
@needs("accelerate")
def test_transformers_trainer(both: Both) -> None:
    ran = both("""
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
        set_seed(0)
        class Texts(Dataset):
            def __len__(self): return 24
            def __getitem__(self, i):
                g = torch.Generator().manual_seed(i)
                return dict(input_ids=torch.randint(0, 50, (8,), generator=g), labels=torch.tensor(i % 2))
        config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=32)
        args = TrainingArguments("out", per_device_train_batch_size=4, num_train_epochs=2,
            gradient_accumulation_steps=2, report_to=[], use_cpu=True, save_steps=3, eval_strategy="epoch",
            disable_tqdm=True, logging_strategy="no")
        trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=Texts(), eval_dataset=Texts())
        import contextlib, io
        with contextlib.redirect_stdout(io.StringIO()): losses.append(trainer.train().training_loss)
    """)
    assert ran.steps == [f"step_{i}" for i in range(6)]
    assert (ran.ranges["backward"], ran.ranges["optimizer"]) == (12, 6)
    assert ran.ranges["checkpoint"] >= 2
    assert ran.log is not None and [s for s, _ in ran.log.losses] == [i // 2 for i in range(12)]


@needs("accelerate")
def test_accelerate(both: Both) -> None:
    ran = both("""
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Numbers(), 4, shuffle=True))
        for epoch in range(2):
            for x, y in loader:
                with accelerator.accumulate(model):
                    loss = F.mse_loss(model(x), y)
                    accelerator.backward(loss); optimizer.step(); optimizer.zero_grad()
                    losses.append(loss.item())
        accelerator.save_state("state")
    """)
    assert ran.steps == [f"step_{i}" for i in range(8)]
    assert (ran.ranges["forward"], ran.ranges["backward"], ran.ranges["optimizer"]) == (16, 16, 8)
    assert ran.ranges["checkpoint"] >= 1
    assert ran.log is not None and [s for s, _ in ran.log.losses] == [i // 2 for i in range(16)]


def test_run_command_with_the_built_in_collector(tmp_path: Path) -> None:
    """The way a user goes: ``unstall run``, its JSON, its exit code."""
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(HEAD)
        + textwrap.dedent("""
        import time
        class Slow(Numbers):
            def __getitem__(self, i):
                time.sleep(0.003)
                return super().__getitem__(i)
        for epoch in range(5):
            for x, y in DataLoader(Slow(), batch_size=4):
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
        raise SystemExit(7)
    """)
    )
    line = [sys.executable, "-m", "unstall", "run", "--auto", "--collector", "builtin", "--steps", "15:30"]
    line += ["--output", "out", "--json", "report.json", "--", sys.executable, "train.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    report = unstall.from_json((tmp_path / "report.json").read_text())
    assert report.steps[0].count == 15, "steps 15 to 29"
    assert report.steps[0].unprofiled_ns is not None and report.steps[0].unprofiled_ns >= 12_000_000
    assert report.findings[0].code == "host-data-loading"
    assert json.loads((tmp_path / "out" / "run.json").read_text())["collector"] == "builtin"
