"""Which range names say that the step waits for its input."""

from __future__ import annotations

import pytest

from unstall.analyze.host import LOADING, NOT_LOADING


def loads(name: str) -> bool:
    return bool(LOADING.search(name)) and not NOT_LOADING.search(name)


@pytest.mark.parametrize(
    "name",
    ["load", "Load", "train/load", "step 3/load", "load_*", "load 12", "loading", "loader", "data_load", "load_batch",
     "next_batch", "get_batch", "fetch", "fetch_data", "dataloader.__next__", "enumerate(DataLoader)#_SingleProcess"
     "DataLoaderIter.__next__", "wait_batch", "load_images", "load_next", "train:load", "my load", "데이터 로딩"],
)  # fmt: skip
def test_names_of_loading(name: str) -> None:
    assert loads(name)


@pytest.mark.parametrize(
    "name",
    ["load_state_dict", "load_checkpoint", "reload", "loss_load", "torch.load", "checkpoint/load", "model/load",
     "load_model", "preload_kernels", "workload", "upload", "payload", "h2d", "copy_batch", "data_parallel",
     "fetch_gradients", "load_balance", "sload", "load_weights", "forward"],
)  # fmt: skip
def test_names_of_something_else(name: str) -> None:
    assert not loads(name)
