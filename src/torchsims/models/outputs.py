"""What every network here checks and how its parts per task are made."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def check_outputs(outputs: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the tasks; raise if there is none, or a task without outputs.

    Networks keep the names in a tuple beside a ``ModuleList``: any text may be the name of a task, but not the name of
    a module.
    """
    if not outputs:
        raise ValueError("Parameter `outputs` should name at least one task. Found none.")
    for task, number in outputs.items():
        if not number >= 1:
            raise ValueError(f"The outputs of task `{task}` should be positive. Found {number}.")
    return tuple(outputs)


def make_per_task(outputs: Mapping[str, int], make: Callable[[str, int], M]) -> list[M]:
    """Return one module per task, each made from the same state of the global random generator."""
    made: list[M] = []
    for task, number in outputs.items():
        with torch.random.fork_rng(devices=[], enabled=len(made) < len(outputs) - 1):  # the last one advances it
            made.append(make(task, number))
    return made
