"""States: how they are copied, reloaded, and checked before they are loaded."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from torchsims.steppers._torch_private import clones, is_leaf, leaf_restorer

__all__ = ["check_parameters", "check_type", "copied_state", "reloader"]


def copied_state(state: Any) -> Any:
    """Return a copy of a state; `deepcopy` alone is slow for tensors."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: copied_state(value) for key, value in state.items()}
    return [copied_state(value) for value in state] if isinstance(state, list) else copy.deepcopy(state)


def reloader(module: nn.Module) -> Callable[[], None]:
    """Return a function that loads the state that the module has now, and sets its mode."""
    if is_leaf(module):
        return leaf_restorer(module)
    state = dict(module.state_dict())
    kept = [name for name, each in state.items() if type(each) is Tensor]
    copies = dict(zip(kept, clones([state[name] for name in kept]), strict=True))
    state = {name: copies[name] if name in copies else copied_state(each) for name, each in state.items()}
    modes = [(each, each.training) for each in module.modules()]

    def reload() -> None:
        module.load_state_dict(state)
        for each, training in modes:
            each.training = training

    return reload


def check_type(module: nn.Module, saved: str) -> None:
    """Raise if the state is that of another type of module, whose entries may have the same names."""
    if type(module).__name__ != saved:
        raise ValueError(f"The state should be one of `{type(module).__name__}`. Found one of `{saved}`.")


def check_parameters(mine: Mapping[str, list[int]], other: Mapping[str, list[int]]) -> None:
    """Raise if the state is that of another model; the order counts too, because an optimizer's state has no names."""
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) != other.get(name):
            wanted, found = (f"shape {x[name]}" if name in x else "none" for x in (mine, other))
            raise ValueError(f"The state should be one of this model, with {wanted} for `{name}`. Found {found}.")
    if list(mine) != list(other):
        raise ValueError(f"The parameters should be in the order {list(mine)}. Found {list(other)}.")
