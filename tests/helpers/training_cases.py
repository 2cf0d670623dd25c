"""Runs that take a second, and what is left of them."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchsims.training import RunConfig, complete_config
from torchsims.training.checkpoints import read_checkpoint

DATA = "scenes:images=16:resolution=32"


def small(**changes: Any) -> RunConfig:
    """Return the configuration of a run of 2 epochs with 4 steps each."""
    return RunConfig(**{"data": DATA, "model": "hps:width=8", "epochs": 2, "batch": 4, "lr": 3e-3, **changes})


def checkpoint(folder: Path) -> dict[str, Any]:
    return read_checkpoint(folder / "checkpoint.pt")


def tensors(state: Any, name: str = "") -> dict[str, Tensor]:
    """Return every tensor of a nested state by its path."""
    if isinstance(state, Tensor):
        return {name: state}
    if isinstance(state, dict):
        entries = state.items()
    elif isinstance(state, list | tuple):
        entries = enumerate(state)  # type: ignore[assignment]
    else:
        return {}
    return {k: v for key, value in entries for k, v in tensors(value, f"{name}/{key}").items()}


def assert_same_tensors(one: Any, other: Any) -> None:
    """Check that two states hold the same tensors, bit for bit."""
    first, second = tensors(one), tensors(other)
    assert first
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert different == []


def preset(name: str, **given: Any) -> RunConfig:
    """Return the configuration of a preset, with changes."""
    return complete_config({"preset": name, **given})
