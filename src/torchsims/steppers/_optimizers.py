"""Optimizers: how they are made, loaded and restored."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn
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
    defaults: dict[str, Any] = getattr(optimizer, "defaults", {})  # a wrapper of an optimizer need not have them
    # torch adds `differentiable` to the defaults, and not to the groups, when it loads the state of any optimizer.
    options = [(defaults.keys() & group.keys()) - {"differentiable"} for group in optimizer.param_groups]
    _load(optimizer, copied_state(dict(state)), scalars_only=True)
    for names, group in zip(options, optimizer.param_groups, strict=True):
        missing = sorted(names - group.keys())
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
        _load(optimizer, state)

    return back


def _load(optimizer: Optimizer, state: dict[str, Any], scalars_only: bool = False) -> None:
    """Load a state with the dtypes it has: torch casts all of it to those of the parameters.

    With ``scalars_only`` the others are cast, so that the state of a model fits the same model in another precision.
    """
    optimizer.load_state_dict(state)
    ids = [index for group in state["param_groups"] for index in group["params"]]
    for index, p in zip(ids, parameters_of(optimizer), strict=True):
        for name, saved in state["state"].get(index, {}).items():
            keep = isinstance(saved, Tensor) and (saved.ndim == 0 or not scalars_only)
            if keep and optimizer.state[p][name].dtype != saved.dtype:
                optimizer.state[p][name] = saved.to(optimizer.state[p][name].device)


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the parameters of all groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]
