"""토큰화를 주 스레드의 collate 함수에서 하는 언어 모델 (tokenisation in Python, in the collate function)."""

import random
from collections.abc import Callable

import torch
from kit import DEVICE, size
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader

CODE = "host-data-loading"
RANGE = "데이터 준비"
REMEDY = "the same collate function in ten worker processes"

LENGTH = size(1024, 16)
WORDS = ["가나다", "학습", "모델", "그래픽", "처리", "속도", "병목", "추적", "분석", "개선"]


def collate(texts: list[str]) -> torch.Tensor:
    rows = []
    for text in texts:
        ids = []
        for word in text.split():
            code = 7
            for letter in word:
                code = (code * 31 + ord(letter)) % 30011
            ids.append(code)
        rows.append(ids[:LENGTH])
    return torch.tensor(rows)


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = size(2048, 16)
        self.embed = nn.Embedding(30011, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.deep = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + self.mlp(x)
        return (x + self.deep(x)).square().mean()


def build(variant: str) -> Callable[[int], object]:
    bad = variant == "bad"
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=LENGTH)) for _ in range(64)] * 500
    workers = 0 if bad else size(10, 1)
    loader = iter(DataLoader(texts, 8, collate_fn=collate, num_workers=workers, pin_memory=not bad))
    model = Language().to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, fused=True)

    def step(i: int) -> object:
        with nvtx.range(f"스텝 {i}"):
            with nvtx.range("데이터 준비"):
                ids = next(loader)
            with nvtx.range("전송"):
                ids = ids.to(DEVICE, non_blocking=not bad)
            with nvtx.range("순전파"):
                loss = model(ids)
            with nvtx.range("역전파"):
                optimizer.zero_grad()
                loss.backward()
            with nvtx.range("최적화"):
                optimizer.step()
        return loss

    return step
