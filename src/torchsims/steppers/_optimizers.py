"""Optimizers: how they are made, loaded and restored."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from torch import nn
from torch.optim import Optimizer

from torchsims.steppers._copies import clones, overwrite
from torchsims.steppers._states import copied_state

__all__ = ["OptimizerFactory", "load_optimizer", "make_optimizer", "parameters_of", "restorer"]

OptimizerFactory: TypeAlias = Callable[[list[tuple[str, nn.Parameter]]], Optimizer]
"""What makes an optimizer of named parameters, such as ``partial(Adam, lr=1e-3)``."""


def make_optimizer(factory: OptimizerFactory, parameters: Iterable[tuple[str, nn.Parameter]]) -> Optimizer:
    """Return the optimizer of named parameters; raise if its `step` needs a closure."""
    optimizer = factory(list(parameters))
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ValueError(
            f"The optimizer should step without a closure. Found `{type(optimizer).__name__}`, which needs one."
        )
    return optimizer


def load_optimizer(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Load a copy of an optimizer's state; raise if it is that of another type of optimizer."""
    optimizer.load_state_dict(copied_state(dict(state)))
    for group in optimizer.param_groups:
        missing = sorted(optimizer.defaults.keys() - group.keys())
        if missing:
            raise ValueError(
                f"The state should be one of `{type(optimizer).__name__}`. Found one of an optimizer without {missing}."
            )


def restorer(optimizer: Optimizer) -> Callable[[], None]:
    """Return a function that restores the optimizer and its parameters as they are now."""
    parameters = parameters_of(optimizer)
    values, state = clones(parameters), copied_state(optimizer.state_dict())

    def back() -> None:
        overwrite(parameters, values)
        optimizer.load_state_dict(state)

    return back


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the parameters of all groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]
