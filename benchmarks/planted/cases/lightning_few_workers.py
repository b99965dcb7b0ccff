"""Lightning-like classes and its profiler's range names; one worker cannot keep up."""

import time
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

CODE = "host-data-loading"
RANGE = "[_TrainingEpochLoop].train_dataloader_next"
REMEDY = "ten workers instead of one"


class Records(Dataset):
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(size(0.014, 0.001))
        return torch.full((8, size(1024, 8)), index % 1000)


class LitModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = size(2048, 16)
        self.table = nn.Embedding(1000, width)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
        )  # fmt: skip

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.layers(self.table(batch)).float().square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-4, fused=True)


class Trainer:
    def __init__(self, module: LitModule, loader: DataLoader) -> None:
        self.module, self.batches = module.to(DEVICE, torch.bfloat16), iter(loader)
        self.optimizer = module.configure_optimizers()

    def run(self, i: int) -> object:
        with nvtx.range("[_TrainingEpochLoop].train_dataloader_next"):
            batch = next(self.batches)
        with nvtx.range("[Strategy]SingleDeviceStrategy.batch_to_device"):
            batch = batch.to(DEVICE, non_blocking=True)
        with nvtx.range("run_training_batch"):
            return self.advance(batch)

    def advance(self, batch: torch.Tensor) -> object:
        with nvtx.range("[Strategy]SingleDeviceStrategy.training_step"):
            loss = self.module.training_step(batch)
        with nvtx.range("[Strategy]SingleDeviceStrategy.backward"):
            self.optimizer.zero_grad()
            loss.backward()
        with nvtx.range("[LightningModule]LitModule.optimizer_step"):
            self.optimizer.step()
        return loss


def build(variant: str) -> Callable[[int], object]:
    workers = 1 if variant == "bad" else size(10, 1)
    return Trainer(LitModule(), DataLoader(Records(), None, num_workers=workers, pin_memory=True)).run
