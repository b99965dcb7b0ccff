"""Vision: compressed images are decoded and augmented on the main thread, right before they are needed."""

import zlib
from collections.abc import Callable

import numpy as np
import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

CODE = "host-data-loading"
RANGE = "decode_images"
REMEDY = "decode in worker processes, hand over pinned batches"

SIDE = size(224, 32)


class Archive(Dataset):
    """Images as compressed bytes; a batch is sixteen of them, decoded, flipped and shifted."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        noise = rng.integers(0, 40, (32, SIDE, SIDE, 3), dtype=np.uint8)
        self.files = [zlib.compress(image.tobytes(), 6) for image in noise]

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> torch.Tensor:
        images = []
        for k in range(16):
            image = np.frombuffer(zlib.decompress(self.files[(index + k) % 32]), np.uint8).reshape(SIDE, SIDE, 3)
            if k % 2:
                image = image[:, ::-1]
            images.append(np.roll(image, k, axis=0))
        return torch.from_numpy(np.stack(images))


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = size(2048, 16)
        self.embed = nn.Linear(16 * 16 * 3, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(size(5, 1))
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        n, g = len(images), SIDE // 16
        patches = images.view(n, g, 16, g, 16, 3).transpose(2, 3).reshape(n * g * g, -1)
        x = self.embed(patches.bfloat16() / 128 - 1)
        for block in self.blocks:
            x = x + block(x)
        return x.float().square().mean()


class Prefetched:
    """Batches, each moved to the GPU when it is asked for."""

    def __init__(self, workers: int) -> None:
        self.batches = iter(DataLoader(Archive(), None, num_workers=workers, pin_memory=workers > 0))
        self.ahead = workers > 0

    def __call__(self) -> torch.Tensor:
        with nvtx.range("decode_images"):
            batch = next(self.batches)
        return batch.to(DEVICE, non_blocking=self.ahead)


def build(variant: str) -> Callable[[int], object]:
    batch = Prefetched(0 if variant == "bad" else size(10, 1))
    model = Patches().to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def train_step(i: int) -> object:
        nvtx.range_push("train_step")
        images = batch()
        with nvtx.range("forward_backward"):
            loss = model(images)
            loss.backward()
        with nvtx.range("update"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        nvtx.range_pop()
        return loss

    return train_step
