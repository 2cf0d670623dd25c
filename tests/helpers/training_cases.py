"""Runs that take a second, and what is left of them."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsims.training import Callback, Run, RunConfig, StepValues, complete_config
from torchsims.training.checkpoints import read_checkpoint

DATA = "scenes:images=16:resolution=32"


def small(**changes: Any) -> RunConfig:
    """Return the configuration of a run of 2 epochs with 4 steps each."""
    return RunConfig(**{"data": DATA, "model": "hps:width=8", "epochs": 2, "batch": 4, "lr": 3e-3, **changes})


class Interrupt(Callback):
    """Presses Ctrl-C during a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_step(self, step: int, values: StepValues) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


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


def assert_same_run(one: Run, other: Run) -> None:
    """Check that two runs found the same numbers."""
    assert one.metrics == other.metrics
    np.testing.assert_equal(one.history.to_dict(), other.history.to_dict())  # unlike ==, it takes NaN for NaN
    assert one.samples is not None
    assert other.samples is not None
    assert one.samples.keys() == other.samples.keys()
    for name, array in one.samples.items():
        np.testing.assert_array_equal(array, other.samples[name])


def preset(name: str, **given: Any) -> RunConfig:
    """Return the configuration of a preset, with changes."""
    return complete_config({"preset": name, **given})
