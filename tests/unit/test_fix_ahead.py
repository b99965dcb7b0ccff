"""Loaders that draw ahead in a trial: same batches in the same order, errors and early ends in their places."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch", reason="torch is not installed")

PROLOGUE = """
import gc, threading, torch
from torch.utils.data import DataLoader, Dataset
from unstall.fix import drawn_ahead
drawn_ahead.switch(torch)

class Numbers(Dataset):
    bad = None
    def __len__(self):
        return 9
    def __getitem__(self, i):
        if i == self.bad:
            raise KeyError(i)
        return torch.tensor(i)

def threads():
    return [t for t in threading.enumerate() if t.name == "unstall-ahead"]
"""

CASES = {
    "order, twice": """
        loader = DataLoader(Numbers(), batch_size=2)
        for _ in range(2):
            assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    """,
    "workers that stay": """
        loader = DataLoader(Numbers(), batch_size=3, num_workers=1, persistent_workers=True)
        for _ in range(2):
            assert [b.tolist() for b in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
        for batch in loader:
            break
        assert [b.tolist() for b in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    """,
    "an error where its batch would have come": """
        data = Numbers(); data.bad = 4
        seen = []
        try:
            for batch in DataLoader(data, batch_size=2):
                seen.append(batch.tolist())
        except KeyError:
            pass
        assert seen == [[0, 1], [2, 3]]
    """,
    "left early": """
        iterator = iter(DataLoader(Numbers(), batch_size=1))
        next(iterator)
        (thread,) = threads()
        del iterator; gc.collect()
        thread.join(5)
        assert not threads()
    """,
    "Python ends while it draws": """
        import builtins
        class Long(Numbers):
            def __len__(self):
                return 10**6
            def __getitem__(self, i):
                return torch.randn(200, 200) @ torch.randn(200, 200)
        builtins.kept = iter(DataLoader(Long(), batch_size=4))
        next(builtins.kept)
    """,
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES)
def test_loader_that_draws_ahead(body: str) -> None:
    code = PROLOGUE + textwrap.dedent(body)
    line = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
