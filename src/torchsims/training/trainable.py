"""The part of a model that training changes. Frozen parameters come from where they came from: they are not saved."""

from collections.abc import Mapping
from math import isclose
from typing import Any

import torch
from torch import Tensor, nn

ROUNDING = 1e-5  # between processors that draw the same random numbers


def trainable_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the trainable parameters and the buffers of a model.

    Example:
        >>> sorted(trainable_state(nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 1))))
        ['1.bias', '1.weight']
    """
    frozen = _frozen(model)
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


@torch.no_grad()
def frozen_sums(model: nn.Module) -> list[float]:
    """Return sums over the frozen parameters that tell two encoders apart; empty if there is none."""
    frozen = [p for p in model.parameters() if not p.requires_grad]
    if not frozen:
        return []
    return [sum(float(power(p.double()).sum()) for p in frozen) for power in (Tensor.abs, Tensor.square)]


def load_trainable_state(model: nn.Module, state: Mapping[str, Any], sums: list[float]) -> None:
    """Load what :func:`trainable_state` returned into a model whose frozen parameters are those of the saved one."""
    found = frozen_sums(model)
    if len(found) != len(sums) or not all(isclose(a, b, rel_tol=ROUNDING) for a, b in zip(found, sums, strict=True)):
        raise ValueError(
            "The frozen parameters of the model should be those that the run was trained with. Found others: has the "
            "encoder, or the package that draws its random weights, changed since?"
        )
    check_trainable_state(model, state)
    model.load_state_dict(state, strict=False)


def check_trainable_state(model: nn.Module, state: Mapping[str, Any]) -> None:
    """Raise an error unless a state has the names, shapes and types of those of a model."""
    own, found = (
        {k: (tuple(v.shape), v.dtype) if isinstance(v, Tensor) else v for k, v in values.items()}
        for values in (trainable_state(model), state)
    )
    if different := sorted(name for name in own.keys() | found.keys() if own.get(name) != found.get(name)):
        name = different[0]
        raise ValueError(
            f"The state should be one of this model, with {own.get(name)} for `{name}`. Found {found.get(name)}."
        )


def _frozen(model: nn.Module) -> set[str]:
    return {name for name, p in model.named_parameters(remove_duplicate=False) if not p.requires_grad}
