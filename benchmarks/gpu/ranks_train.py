"""A small transformer on several ranks, with one fault; and the same without it, timed in the same process.

    torchrun --nproc-per-node 2 ranks_train.py CASE [--steps 60] [--after 40] [--slow 1] [--backend nccl|gloo] [--small]

Comes in: a case. Goes out: ``--steps`` steps with the fault (profile those), then ``--after`` steps without it, and on
standard output one line of JSON a rank: median step times of both, ms (of the first, the unprofiled steps are the ones
before a capture window; ``unstall run --steps`` keeps them apart itself).

============== ==========================================================  =============================================
case           fault                                                       without it
============== ==========================================================  =============================================
healthy        none                                                        the same
tiny_buckets   gradients reduced in buckets of 64 kB                       buckets of 25 MB
slow_loading   the slow rank's main thread loads 10 ms longer              loads as the others
more_layers    the slow rank runs layers that the others do not have       does not
blocking       an all-reduce of metrics in the loop, and its ``.item()``   neither
fsdp           none: parameters sharded                                    the same
============== ==========================================================  =============================================
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

CASES = ("healthy", "tiny_buckets", "slow_loading", "more_layers", "blocking", "fsdp")
METRICS = 16 << 20  # numbers: 64 MB


class Texts(Dataset):
    """Made-up texts; ``late_s`` makes the first of each batch late."""

    def __init__(self, batches: int, batch: int, length: int, late_s: float) -> None:
        self.size, self.batch, self.length, self.late_s = batches * batch, batch, length, late_s

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> Any:
        if self.late_s and i % self.batch == 0:
            time.sleep(self.late_s)
        return torch.randint(0, 1000, (self.length,), generator=torch.Generator().manual_seed(i))


class Model(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, max(width // 64, 1), 4 * width, 0.0, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def parallel(model: nn.Module, case: str, fault: bool, device: torch.device) -> nn.Module:
    if case == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)
    bucket = 0.0625 if case == "tiny_buckets" and fault else 25
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=bucket)


def train(asked: argparse.Namespace, fault: bool, steps: int, device: torch.device) -> list[float]:
    """Step times, ms; the GPU is waited for after the warm-up and at the end only, and the time between shared out."""
    case, rank = asked.case, dist.get_rank()
    slow = fault and rank == asked.slow
    width, layers, batch, length = (64, 2, 4, 32) if asked.small else (1024, 8, 16, 256)
    torch.manual_seed(0)
    model = parallel(Model(width, layers).to(device), case, fault, device)
    extra = Model(width, layers).to(device) if slow and case == "more_layers" else None
    metrics = torch.ones(METRICS >> (8 if asked.small else 0), device=device) if case == "blocking" and fault else None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device.type == "cuda")
    data = Texts(steps, batch, length, asked.late_ms / 1000 if slow and case == "slow_loading" else 0.0)
    ends: list[float] = []
    for drawn in DataLoader(data, batch_size=batch):
        tokens = drawn.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            if extra is not None:
                with torch.no_grad():
                    for _ in range(asked.extra):
                        extra(tokens)
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if metrics is not None:
            dist.all_reduce(metrics)
            loss.item()
        if len(ends) in (9, steps - 1) and device.type == "cuda":
            torch.cuda.synchronize()
        ends.append(time.perf_counter())
    return [1000 * (ends[-1] - ends[9]) / (steps - 10)] if steps > 10 else []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--after", type=int, default=40)
    parser.add_argument("--slow", type=int, default=1)
    parser.add_argument("--late-ms", type=float, default=10, help="how much longer the slow rank loads")
    parser.add_argument("--extra", type=int, default=1, help="how often the extra layers run")
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", local % torch.cuda.device_count())
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(asked.backend)
    try:
        with_fault = train(asked, True, asked.steps, device)
        without = train(asked, False, asked.after, device) if asked.after else []
        told = {"rank": dist.get_rank(), "case": asked.case}
        told |= {"bad_ms": round(statistics.median(with_fault), 3)} if with_fault else {}
        told |= {"fixed_ms": round(statistics.median(without), 3)} if without else {}
        print("TRUTH " + json.dumps(told), flush=True)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
