"""Checkpoints of sharded models: each rank holds and writes its part, and any number of ranks reads all of it."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.tensor import DTensor

from helpers.ranks import run_ranks
from helpers.training_cases import tensors

SCRIPT = Path(__file__).parents[2] / "examples" / "sharded_checkpoint.py"
STEPS = 10


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def size_of(state: dict[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in state.values())


def train(rank: int, folder: Path) -> None:
    runpy.run_path(str(SCRIPT))["train"](folder, STEPS)


def load(rank: int, folder: Path) -> dict[str, Any]:
    """Return the state that is loaded, the bytes of it that this rank holds, and the losses of the next step."""
    script = runpy.run_path(str(SCRIPT))
    model, method = script["build"]()
    step = script["restore"](script["newest"](folder), model, method)
    state = tensors({"model": model.state_dict(), "method": method.state_dict()})
    parts = {name: each.to_local() for name, each in state.items() if isinstance(each, DTensor)}
    return {
        "step": step,
        "state": {name: full(each).clone() for name, each in state.items()},
        "bytes": size_of(parts),
        "losses": method.step(script["task_losses"], script["batch"](step)).losses,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "999999").mkdir()  # of a save that was interrupted: it lacks the file that is written last
    run_ranks({"train": (train, (folder,))})
    return folder


@pytest.fixture(scope="module")
def saved(folder: Path) -> dict[str, Tensor]:
    path = folder / "whole.pt"
    dcp_to_torch_save(folder / f"{STEPS:06d}", path)
    return tensors(torch.load(path, weights_only=True))


@pytest.fixture(scope="module")
def loaded(folder: Path) -> dict[int, list[dict[str, Any]]]:
    return {ranks: run_ranks({"load": (load, (folder,))}, size=ranks)["load"] for ranks in (1, 2, 3)}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_loads_what_two_have_saved(
    ranks: int, loaded: dict[int, list[dict[str, Any]]], saved: dict[str, Tensor]
) -> None:
    for found in loaded[ranks]:
        assert not isinstance(found, str), found
        assert found["step"] == STEPS
        assert found["state"].keys() == saved.keys()
        assert [name for name, each in found["state"].items() if not torch.equal(each, saved[name])] == []
        assert found["losses"] == pytest.approx(loaded[2][0]["losses"], rel=1e-5)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_each_rank_holds_its_part(
    ranks: int, loaded: dict[int, list[dict[str, Any]]], saved: dict[str, Tensor]
) -> None:
    whole = size_of({name: each for name, each in saved.items() if not name.endswith("/step")})  # a number of Adam
    parts = [found["bytes"] for found in loaded[ranks]]
    assert sum(parts) == whole
    assert max(parts) < 1.2 * whole / ranks
