"""``unstall fix``: golden patches, however the script is written; what is left alone; writing it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unstall.commands import fix
from unstall.errors import UsageError
from unstall.fix import patching
from unstall.fix.remedy import named, remedies
from unstall.testing import TraceBuilder, ms
from unstall.trial import patched

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"


def fixed(text: str, *names: str, workers: int = 4) -> str:
    made = patching.make(text, named(names) if names else remedies(), path="train.py", workers=workers)
    return made.text


def left(text: str, *names: str) -> list[str]:
    made = patching.make(text, named(names), path="train.py", workers=4)
    assert made.text == text
    return [n.reason for n in made.patch.left]


LOADERS = {
    "one line": (
        "loader = DataLoader(data, batch_size=64, shuffle=True)  # mine\n",
        "loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True)  # mine\n",
    ),
    "trailing comma on one line": (
        "loader = DataLoader(data, 64, )\n",
        "loader = DataLoader(data, 64, num_workers=4, persistent_workers=True, )\n",
    ),
    "a line each, comma and comment at the end": (
        "loader = DataLoader(\n    data,\n    batch_size=64,  # keep\n)\n",
        "loader = DataLoader(\n    data,\n    batch_size=64,  # keep\n    num_workers=4,\n"
        "    persistent_workers=True,\n)\n",
    ),
    "a line each, no comma, comment at the end": (
        "loader = DataLoader(\n\tdata,\n\tbatch_size=64  # a, b\n\t)\n",
        "loader = DataLoader(\n\tdata,\n\tbatch_size=64,  # a, b\n\tnum_workers=4,\n\tpersistent_workers=True,\n\t)\n",
    ),
    "hanging": (
        "loader = DataLoader(data,\n                    batch_size = 64)\n",
        "loader = DataLoader(data,\n                    batch_size = 64,\n                    num_workers=4,\n"
        "                    persistent_workers=True,)\n",
    ),
    "zero given": (
        "loader = DataLoader(data, num_workers = 0)\n",
        "loader = DataLoader(data, num_workers = 4, persistent_workers=True)\n",
    ),
    "zero by position": (
        "loader = DataLoader(data, 8, True, None, None, 0)\n",
        "loader = DataLoader(data, 8, True, None, None, 4, persistent_workers=True)\n",
    ),
    "letters of three bytes in front": (
        "s = '데이터'; loader = DataLoader(data)  # 데이터\n",
        "s = '데이터'; loader = DataLoader(data, num_workers=4, persistent_workers=True)  # 데이터\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), LOADERS.values(), ids=LOADERS)
def test_loader_arguments_keep_the_style_of_the_call(before: str, after: str) -> None:
    assert fixed(HEAD + before, "dataloader-workers") == HEAD + after


@pytest.mark.parametrize(
    "head",
    [
        "from torch.utils.data import DataLoader as Loader\n",
        "import torch.utils.data as Z\nLoader = 0\ndel Loader\n",
        "from torch.utils import data as Z\n",
        "import torch\n",
        "from torch.utils.data.dataloader import DataLoader as Loader\n",
    ],
)
def test_names_are_followed_through_imports(head: str) -> None:
    call = "Loader" if "as Loader" in head else "Z.DataLoader" if "Z" in head else "torch.utils.data.DataLoader"
    assert "num_workers=4" in fixed(f"{head}loader = {call}(data)\n", "dataloader-workers")


def test_another_libraries_loader_of_the_same_name_is_not_touched() -> None:
    text = "from torch_geometric.loader import DataLoader\nloader = DataLoader(data)\n"
    assert fixed(text) == text


def test_line_ends_stay_as_they_are() -> None:
    text = (HEAD + "loader = DataLoader(\n    data,\n)\nprint(1)").replace("\n", "\r\n")
    assert fixed(text, "dataloader-workers") == text.replace(
        "    data,\r\n",
        "    data,\r\n    num_workers=4,\r\n    persistent_workers=True,\r\n",
    )


def test_what_cannot_be_read_is_left_alone_and_said() -> None:
    assert left(f"{HEAD}DataLoader(data, **kw)\n", "dataloader-workers") == [
        "DataLoader with *args or **kwargs: what it gets cannot be read from here"
    ]
    stream = "from torch.utils.data import IterableDataset\nclass S(IterableDataset):\n    pass\n"
    for use in ("DataLoader(S())\n", "data = S()\nDataLoader(dataset=data)\n"):
        (reason,) = left(f"{HEAD}{stream}{use}", "dataloader-workers")
        assert reason.startswith("an iterable data set")


def test_a_number_of_workers_from_elsewhere_is_said() -> None:
    (why,) = left(HEAD + "loader = DataLoader(data, num_workers=args.workers)\n", "dataloader-workers")
    assert why == "num_workers is args.workers: give it 4 where it is made, if it is 0"
    assert left(HEAD + "loader = DataLoader(data, num_workers=8)\n", "dataloader-workers") == []


def test_modules_beside_the_script_that_have_something_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mylib").mkdir()
    (tmp_path / "train.py").write_text("import os, gone\nfrom mylib import data\nfrom mylib.model import net\n")
    (tmp_path / "mylib" / "data.py").write_text(HEAD + "loader = DataLoader([])\n")
    (tmp_path / "mylib" / "model.py").write_text("net = 1\n")
    script = str(tmp_path / "train.py")
    fix.run(script, profile=None, only=["dataloader-workers"], workers=None, apply=False, json=None)
    told = capsys.readouterr().err.splitlines()
    assert told[-2:] == [
        f"unstall: nothing to do in {script}",
        f"unstall: imported from there, and worth a look: unstall fix {tmp_path / 'mylib' / 'data.py'}",
    ]


def test_pinning_and_copies_of_batches_only() -> None:
    text = (
        f"{HEAD}loader = DataLoader(data)\n"
        "w = torch.ones(3).to(device)\n"
        "for i, (x, y) in enumerate(loader):\n"
        "    x, y = x.to(device), y.cuda()\n"
        "    z = x.to(torch.float16)\n"
        "    c = x.to('cpu')\n"
        "    t = x.to(y)\n"
        "for b in other:\n"
        "    b = b.to(device)\n"
        "for b in tqdm(loader):\n"
        "    b['x'].to(args.device, non_blocking=False)\n"
    )
    expected = text.replace("DataLoader(data)", "DataLoader(data, pin_memory=True)").replace(
        "x.to(device), y.cuda()", "x.to(device, non_blocking=True), y.cuda(non_blocking=True)"
    )
    assert fixed(text, "pin-memory") == expected  # tqdm is not imported here: nobody knows what it is
    by_hand = (
        f"{HEAD}loader = DataLoader(d)\ndef f():\n    it = iter(loader)\n    x, y = next(it)\n    x = x.to(device)\n"
    )
    assert "x.to(device, non_blocking=True)" in fixed(by_hand, "pin-memory")
    known = text.replace("import torch\n", "import torch\nfrom tqdm import tqdm\n")
    assert "b['x'].to(args.device, non_blocking=True)" in fixed(known, "pin-memory")


def test_fused_optimizer() -> None:
    text = (
        "import torch\nfrom torch import optim\nfrom torch.optim import SGD\n"
        "a = torch.optim.AdamW(p, lr=1e-3, foreach=False)\n"
        "b = optim.Adam(p, foreach=True)\n"
        "c = SGD(p, lr=0.1, fused=False)\n"
        "d = optim.RMSprop(p)\n"
        "e = optim.Adagrad(p, fused=True)\n"
    )
    made = patching.make(text, named(["fused-optimizer"]), path="t.py", workers=4)
    assert made.text == (
        text.replace("lr=1e-3, foreach=False", "lr=1e-3, fused=True").replace("fused=False", "fused=True")
    )
    assert [n.line for n in made.patch.left] == [5]


def test_tf32_goes_behind_the_imports() -> None:
    text = '"""doc"""\nfrom __future__ import annotations\nimport os  # o\nimport torch as th\n\nx = 1\nimport late\n'
    assert fixed(text, "tf32") == text.replace(
        "import torch as th\n", 'import torch as th\n\nth.set_float32_matmul_precision("high")\n'
    )
    assert left("import torch\ntorch.backends.cuda.matmul.allow_tf32 = False\n", "tf32")
    assert left("from torch import nn\n", "tf32")


LOOP = (
    "def train(loader, model, opt):\n"
    "    total = 0.0\n"
    "    for x in loader:\n"
    "        loss = model(x)\n"
    "        loss.backward()\n"
    "        total += loss.item()  # sum\n"
    "    return total / len(loader)\n"
)


def test_sums_are_read_after_the_loop() -> None:
    assert fixed(LOOP, "item-after-loop") == LOOP.replace("loss.item()", "loss.detach().double()").replace(
        "    return", "    total = float(total)\n    return"
    )
    listed = LOOP.replace("total = 0.0", "total = []").replace("total += loss.item()", "total.append(loss.item())")
    assert fixed(listed, "item-after-loop") == listed.replace("loss.item()", "loss.detach().clone()").replace(
        "    return", "    total = [float(value) for value in total]\n    return"
    )


@pytest.mark.parametrize(
    "change",
    [
        ("  # sum\n", "\n        print(total)\n"),
        ("  # sum\n", "\n        if total > 3: break\n"),
        ("        loss.backward()\n", ""),
        ("    total = 0.0\n", "    total = start\n"),
        ("    total = 0.0\n", "    total = 0.0\n    show(total)\n"),
        ("    total = 0.0\n", "    global total\n    total = 0.0\n"),
        ("total", "self.total"),
        ("total += loss.item()", "total = total + loss.item()"),
        ("total += loss.item()", "total += loss.item() * 2"),
        ("total += loss.item()", "total -= loss.item()"),
    ],
)
def test_sums_that_anybody_may_read_are_left_alone(change: tuple[str, str]) -> None:
    reasons = left(LOOP.replace(*change), "item-after-loop")
    assert len(reasons) == 1 and "makes the host wait" in reasons[0]


def test_the_sum_is_the_same_bit_by_bit() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    data, model = [torch.randn(7, requires_grad=True) for _ in range(50)], lambda x: x.square().mean() / 3
    for text in (LOOP, LOOP.replace("= 0.0", "= []").replace("total += loss.item()", "total.append(loss.item())")):
        both = []
        for source in (
            text.replace(" / len(loader)", ""),
            fixed(text, "item-after-loop").replace(" / len(loader)", ""),
        ):
            names: dict[str, object] = {}
            exec(source, names)
            both.append(names["train"](data, model, None))  # type: ignore[operator]
        assert both[0] == both[1] and type(both[0]) is type(both[1])


ATTENTION = {
    "one expression": (
        "    return torch.softmax(q @ k.transpose(-2, -1) * scale_, dim=-1) @ v\n".replace("scale_", "0.125"),
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125)\n",
    ),
    "unscaled, methods and functions": (
        "    return torch.matmul(torch.matmul(q, k.mT).softmax(-1), v)\n",
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)\n",
    ),
}


def test_attention_is_rewritten_as_a_whole() -> None:
    head = "import torch, math\nimport torch.nn.functional as F\ndef attend(q, k, v, d):\n"
    for before, after in ATTENTION.values():
        assert fixed(head + before, "sdpa") == head + after
    text = "    a = (q @ k.transpose(-1, -2)) / math.sqrt(d)  # scores\n    a = F.softmax(a, dim=-1)\n"
    text += "    y = a @ v\n    return y\n"
    assert fixed(head + text, "sdpa") == head + (
        "    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0 / (math.sqrt(d)))\n    return y\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        "    a = F.softmax(q @ k.mT, dim=-1)\n    keep(a)\n    return a @ v\n",
        "    a = q @ k.mT\n    a = a.masked_fill(m, -1e9)\n    a = F.softmax(a, dim=-1)\n    return a @ v\n",
        "    a = F.softmax(q @ k.mT, dim=1)\n    return a @ v\n",
        "    a = F.softmax(q @ k.mT * temperature, dim=-1)\n    return a @ v\n",
        "    return F.softmax(q @ k.mT + m, dim=-1) @ v\n",
        "    return F.softmax(q @ k, dim=-1) @ v\n",
        "    return F.softmax(q @ k.transpose(0, 1), dim=-1) @ v\n",
    ],
)
def test_attention_of_another_form_is_left_alone(body: str) -> None:
    assert len(left(f"import torch\nimport torch.nn.functional as F\ndef f(q, k, v, m):\n{body}", "sdpa")) == 1


def test_rewritten_attention_computes_the_same() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 8, dtype=torch.float64) for _ in range(3))
    head = "import torch, math\ndef attend(q, k, v, d):\n"
    for body in (
        ATTENTION["one expression"][0],
        ATTENTION["unscaled, methods and functions"][0],
        "    a = (q @ k.transpose(-1, -2)) / math.sqrt(d)\n    a = a.softmax(dim=-1)\n    return a @ v\n",
    ):
        out = []
        for source in (head + body, fixed(head + body, "sdpa")):
            names: dict[str, object] = {}
            exec(source, names)
            out.append(names["attend"](q, k, v, 8))  # type: ignore[operator]
        assert "scaled_dot_product" in fixed(head + body, "sdpa")
        torch.testing.assert_close(out[0], out[1])


def test_channels_last_and_set_to_none_and_checkpoints() -> None:
    text = "import torch\nm = torch.nn.Conv2d(3, 4, 5).cuda()  # net\no = torch.optim.SGD(m.parameters())\n"
    assert fixed(text, "channels-last") == text.replace(
        "# net\n", "# net\nm = m.to(memory_format=torch.channels_last)\n"
    )
    linear = text.replace("Conv2d(3, 4, 5)", "Linear(3, 4)")
    assert fixed(linear, "channels-last") == linear
    zero = "o.zero_grad(set_to_none=False)\nm.zero_grad(False)\nn.zero_grad()\n"
    assert fixed(zero, "set-to-none") == zero.replace("False", "True")
    assert left(zero + "print(p.grad)\n", "set-to-none")
    (reason,) = left("import torch\nfor i in r:\n    torch.save(m, 'x')\ntorch.save(m, 'y')\n", "background-checkpoint")
    assert "every N steps" in reason


EVERYTHING = (
    HEAD
    + "loader = DataLoader(data)\nm = torch.nn.Conv2d(3, 4, 5)\no = torch.optim.AdamW(m.parameters())\nseen = 0\n"
    + "for x in loader:\n    x = x.to(device)\n    loss = m(x).mean()\n    o.zero_grad(set_to_none=False)\n"
    + "    loss.backward()\n    o.step()\n    seen += loss.item()\n"
)


def test_a_second_time_there_is_nothing_to_do() -> None:
    once = fixed(EVERYTHING)
    assert once.count("True") == 5
    again = patching.make(once, remedies(), path="train.py", workers=8)
    assert again.text == once and again.patch.diff == "" and again.patch.changes == []


def test_every_change_names_its_remedy_and_findings() -> None:
    findings = {"dataloader-workers": ["host-data-loading"], "tf32": ["fp32-matmul"]}
    made = patching.make(EVERYTHING, named(list(findings)), path="train.py", workers=4, findings=findings)
    assert {(c.remedy, c.safety, *c.findings) for c in made.patch.changes} == {
        ("dataloader-workers", "safe", "host-data-loading"),
        ("tf32", "changes-numerics", "fp32-matmul"),
    }
    assert made.patch.proven


def test_the_diff_is_one_that_patch_takes(tmp_path: Path) -> None:
    for text in (EVERYTHING, EVERYTHING.rstrip("\n")):
        file = tmp_path / "train.py"
        file.write_text(text)
        made = patching.make(text, remedies(), path="train.py", workers=4)
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=made.patch.diff, text=True, check=True)
        assert file.read_text() == made.text


def test_writing_keeps_every_backup_and_the_mode(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for number, name in enumerate(["train.py.bak", "train.py.bak1"]):
        text = f"{EVERYTHING}# {number}\n"
        script.write_text(text)
        script.chmod(0o750)
        assert patching.apply(script, text, fixed(text)).name == name
        assert (tmp_path / name).read_text() == text
    assert script.stat().st_mode & 0o777 == 0o750
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.py", "train.py.bak", "train.py.bak1"]
    with pytest.raises(UsageError, match="changed meanwhile"):
        patching.apply(script, "something else", "x")


def test_bad_input_is_one_line() -> None:
    with pytest.raises(UsageError, match="is not Python that can be read"):
        fixed("def (:\n")
    with pytest.raises(UsageError, match="no remedy"):
        named(["nonsense"])


def test_the_command_shows_writes_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EVERYTHING)

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "unstall", "fix", "train.py", *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)

    shown = command("--workers", "4")
    assert shown.stdout.startswith("--- a/train.py") and "num_workers=4" in shown.stdout
    assert "none of them is proven" in shown.stderr and "nothing was written" in shown.stderr
    assert (tmp_path / "train.py").read_text() == EVERYTHING
    written = command("--workers", "4", "--apply")
    assert written.stdout == shown.stdout and "train.py.bak" in written.stderr
    again = command("--apply")
    assert again.stdout == "" and "nothing to do" in again.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.py", "train.py.bak"]


UNTOUCHED = "loader = DataLoader(data, batch_size=64)\n"


def test_a_byte_order_mark_and_a_coding_line_that_changes_nothing_stay() -> None:
    for head in ("\ufeff", "\ufeff# caf\u00e9\n", "# coding: latin-1\n", "# -*- coding: utf-8 -*-\n"):
        new = fixed(head + HEAD + UNTOUCHED, "dataloader-workers")
        assert new.startswith(head + HEAD) and "num_workers=4" in new


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"# coding: nosuch\nx = 1\n", "unknown encoding"),
        (b"# coding: latin-1\n# caf\xe9\n", "is written in iso-8859-1"),
        ("# coding: latin-1\n# caf\u00e9\n".encode(), "is written in iso-8859-1"),
        (b"# caf\xe9\n", "is not UTF-8 text"),
        (b"x = 1\0\n", "is not Python that can be read"),
        (b"(" * 3000 + b"1" + b")" * 3000, "too many nested parentheses"),
        (b"x = " + b"+".join([b"1"] * 20_000), "nested too deeply|recursion"),
        (b"x = a" + b".b" * 900, "nested too deeply|recursion"),
    ],
)  # fmt: skip
def test_what_cannot_be_patched_is_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(content)
    with pytest.raises(UsageError, match=why) as caught:
        fix.run(str(script), profile=None, only=(), workers=None, apply=True, json=None)
    assert "\n" not in str(caught.value) and script.read_bytes() == content and len(list(tmp_path.iterdir())) == 1


TRAINS = "for x in data:\n    loss = model(x)\n    loss.backward()\n"
THROUGH = "def step(x):\n    self.optimizer.step()\ndef once(x):\n    step(x)\nwhile True:\n    once(1)\n"
NO_TRAINING = {
    "deep.py": f"for x in y:\n    a{'.b' * 300}.step()\n",  # deeper than Python's own limit lets a recursion go
    "agent.py": "for _ in range(9):\n    env.step(1)\n    scheduler.step()\n",
    "once.py": "loss.backward()\nopt.step()\nfor x in data:\n    print(x)\n",
    "broken.py": "for x in data:\n    loss.backward(\n",
    "notes.txt": TRAINS,
}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "Name the script that trains"),
        (NO_TRAINING, "Name the script that trains"),
        ({**NO_TRAINING, "my train.py": TRAINS}, "Name the script that trains: unstall fix '{}/my train.py'"),
        (
            {**NO_TRAINING, "b.py": TRAINS, "a.py": THROUGH},
            "Name the script that trains: unstall fix {}/a.py, or unstall fix {}/b.py",
        ),
        ({"a.py": "for x in y:\n    self.opts['g'][0].step()\n"}, "Name the script that trains: unstall fix {}/a.py"),
        (dict.fromkeys(("a.py", "b.py", "c.py", "d.py"), TRAINS), "Name the script that trains"),
    ],
)
def test_a_folder_names_its_scripts_that_train(tmp_path: Path, files: dict[str, str], said: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        fix.run(str(tmp_path), profile=None, only=(), workers=None, apply=True, json=None)
    assert str(caught.value) == f"{tmp_path}: is a folder. {said.replace('{}', str(tmp_path))}"


def test_channels_last_only_where_there_are_convolutions() -> None:
    text = (
        "import torch\nclass Net(torch.nn.Module):\n    c = torch.nn.Conv2d(1, 2, 3)\n"
        "def flat():\n    m = torch.nn.Linear(1, 2)\n    o = torch.optim.SGD(m.parameters())\n"
        "def deep():\n    m = Net()\n    o = torch.optim.SGD(m.parameters())\n"
    )
    assert fixed(text, "channels-last") == text.replace(
        "    m = Net()\n", "    m = Net()\n    m = m.to(memory_format=torch.channels_last)\n"
    )


def report_file(folder: Path, *, gpu: bool) -> str:
    """A capture of ten steps with 40 ms of waiting in ``data_load``, as a file."""
    t = TraceBuilder(trace=("cuda", "nvtx", "osrt") if gpu else ("nvtx", "osrt"), gpu="NVIDIA H200" if gpu else "")
    for i in range(10):
        t.range(f"step_{i}", i * ms(50), (i + 1) * ms(50))
        t.range("data_load", i * ms(50), i * ms(50) + ms(40))
        t.osrt("clock_nanosleep", i * ms(50), i * ms(50) + ms(40))
        t.range("forward", i * ms(50) + ms(40), (i + 1) * ms(50))
        if gpu:
            t.launch("gemm", i * ms(50) + ms(40), kernel_dur=ms(9))
    return str(t.write(folder / "capture.sqlite"))


@pytest.mark.parametrize("gpu", [True, False])
def test_a_patch_for_a_capture_pins_only_where_there_is_a_gpu_and_takes_its_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gpu: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + "loader = DataLoader(data, batch_size=64)\n")
    capture = report_file(tmp_path, gpu=gpu)
    fix.run(str(script), profile=capture, only=(), workers=None, apply=False, json=None)
    diff = capsys.readouterr().out
    assert "num_workers=5" in diff  # 40 ms of loading beside 10 ms of everything else, and a quarter more
    assert ("pin_memory=True" in diff) == gpu


def test_a_patched_copy_sees_of_itself_what_the_script_does(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    script, copy = tmp_path / "folder" / "train.py", tmp_path / "train.py"
    script.write_text("import os, sys\nos.chdir('/')\nprint(__file__, __doc__, __name__, sys.argv, sys.path[0])\n")
    copy.write_bytes(b"\xef\xbb\xbf" + script.read_bytes())
    runner = Path(patched.__file__).with_name("run_patched.py")
    plain, tried = (
        subprocess.run([sys.executable, *first, "folder/train.py", "-x"], cwd=tmp_path, capture_output=True, check=True)
        for first in ((), (runner, copy))
    )
    assert plain.stdout == tried.stdout and str(script).encode() in plain.stdout
