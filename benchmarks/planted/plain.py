"""Training loops with one planted fault each, written as people write them: what ``try`` and ``fix`` are measured on.

usage: plain.py CASE [STEPS]; no variants inside: the remedy is what ``unstall fix`` writes.
"""

# ruff: noqa: PLW2901 - written as people write them
import math
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SMALL = device.type == "cpu"
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 150


def size(large, small):
    """Sizes for a GPU, or just large enough to run on a CPU."""
    return small if SMALL else large


class SlowDisk(Dataset):
    """20 ms a batch, as from a slow file system."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.020)
        g = torch.Generator().manual_seed(index)
        return torch.randn(64, size(1024, 16), generator=g), torch.randn(64, size(1024, 16), generator=g)


def mlp(width, hidden, layers):
    parts = [nn.Linear(width, hidden), nn.ReLU()]
    for _ in range(layers):
        parts += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, width)).to(device)


def loader():
    model = mlp(size(1024, 16), size(4096, 32), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = DataLoader(SlowDisk(), batch_size=None)
    for i, (x, y) in enumerate(batches):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i >= STEPS:
            break


def pageable():
    data = TensorDataset(torch.randn(size(40_000, 400), size(4096, 64)))
    rows = size(8192, 32)
    places = [slice(i * 100, i * 100 + rows) for i in range(STEPS)]
    batches = DataLoader(data, batch_size=None, sampler=places)
    model = nn.Linear(size(4096, 64), 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for (x,) in batches:
        x = x.to(device)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def optimizer():
    model = mlp(size(128, 16), size(128, 16), 60)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    x = torch.randn(64, size(128, 16), device=device)
    for _ in range(STEPS):
        loss = model(x).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()


def fp32():
    model = mlp(size(4096, 16), size(8192, 32), 2)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(size(2048, 16), size(4096, 16), device=device)
    for _ in range(STEPS):
        loss = model(x).square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inner, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.inner(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        weights = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        weights = torch.softmax(weights, dim=-1)
        y = weights @ v
        return x + self.out(y.transpose(1, 2).reshape(b, t, w))


def attention():
    model = nn.Sequential(*[Attention(size(1024, 32), size(16, 2)) for _ in range(4)]).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(size(8, 2), size(2048, 16), size(1024, 32), device=device)
    for _ in range(STEPS):
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(x).float().square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()


def item():
    model = mlp(size(512, 16), size(512, 16), 24)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(size(8192, 16), size(512, 16), device=device)
    total = 0.0
    for _ in range(STEPS):
        loss = model(x).square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        total += loss.item()
    print(total / STEPS)


def conv():
    width = size(256, 8)
    model = nn.Sequential(*[nn.Conv2d(width, width, 3, padding=1) for _ in range(8)])
    model = model.to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(size(64, 2), width, 56 if not SMALL else 8, 56 if not SMALL else 8, device=device)
    for _ in range(STEPS):
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(x).float().square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
