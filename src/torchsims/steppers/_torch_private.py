"""Everything in the steppers that relies on private parts of torch, which any release may change.

`tests/steppers/test_torch_private.py` checks each of them and names the part that changed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler, OptState
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

__all__ = [
    "forget_optimizers",
    "has_unscaled",
    "map_tensors",
    "parameters_in_graph",
    "unscale_and_check_",
    "without_compile_prefix",
]


def unscale_and_check_(gradients: Sequence[Tensor], factor: Tensor) -> Tensor:
    """Multiply gradients of one device and dtype by a factor; return a nonzero scalar if any is NaN or infinite.

    This is the kernel of `GradScaler`: exact, and many times faster than a maximum norm.
    """
    # The kernel expects single precision, whatever the default dtype and that of the gradients are.
    found = torch.zeros((), dtype=torch.float32, device=gradients[0].device)
    torch._amp_foreach_non_finite_check_and_unscale_(list(gradients), found, factor.to(found))
    return found


def forget_optimizers(scaler: GradScaler, optimizers: Iterable[Optimizer]) -> None:
    """Make the scaler forget that it has unscaled the gradients of these optimizers."""
    for optimizer in optimizers:
        scaler._per_optimizer_states.pop(id(optimizer), None)


def has_unscaled(scaler: GradScaler, optimizers: Iterable[Optimizer]) -> bool:
    """Return whether the scaler has unscaled gradients of any of these optimizers since its last `update`."""
    states = scaler._per_optimizer_states
    return any(states[id(each)]["stage"] is not OptState.READY for each in optimizers if id(each) in states)


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Return nested containers with every tensor replaced by ``function(tensor)``."""
    return tree_map_only(Tensor, function, tree)


def parameters_in_graph(tensor: Tensor) -> set[int]:
    """Return the ids of the parameters that the autograd graph of a tensor reaches."""
    found: set[int] = set()
    visited: set[Any] = set()
    waiting = [tensor.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if node.name() == "torch::autograd::AccumulateGrad":
            found.add(id(node.variable))
        waiting += [child for child, _ in node.next_functions]
    return found


def without_compile_prefix(name: str) -> str:
    """Return the name of a parameter or module without what `torch.compile` inserts into it."""
    return name.replace("_orig_mod.", "")
