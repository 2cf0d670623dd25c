"""Everything in the steppers that relies on private parts of torch, which any release may change.

`tests/steppers/test_torch_private.py` checks each of them and names the part that changed.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, is_not
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler, OptState
from torch.autograd.graph import _engine_run_backward
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

__all__ = [
    "Structure",
    "are_ordinary",
    "clones",
    "forget_optimizers",
    "has_unscaled",
    "hook_restorer",
    "is_leaf",
    "leaf_restorer",
    "map_tensors",
    "outermost",
    "overwrite",
    "overwrite_ordinary",
    "parameters_in_graph",
    "run_backward",
    "share_hooks",
    "signature",
    "unscale_and_check_",
    "value_restorer",
    "without_compile_prefix",
]


def clones(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the values of the tensors, copied by one operator where there is one for all of them."""
    if not tensors:
        return []
    if are_ordinary(tensors) and hasattr(torch, "_foreach_clone"):  # since torch 2.13
        return list(_without_gradients(torch._foreach_clone, list(tensors)))
    return [tensor.detach().clone() for tensor in tensors]


def overwrite(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into tensors, in place."""
    if not tensors:
        return
    if are_ordinary(tensors) and are_ordinary(values):
        overwrite_ordinary(list(tensors), list(values))
        return
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


def overwrite_ordinary(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Copy values into tensors, in place, where all of them are known to be ordinary."""
    _without_gradients(torch._foreach_copy_, tensors, values)


def _without_gradients(operator: Callable[..., Any], *tensors: list[Tensor]) -> Any:
    """Call an operator inside `torch.no_grad`, which takes many more steps of Python."""
    enabled = torch.is_grad_enabled()
    try:  # an interrupt may come at any time
        torch._C._set_grad_enabled(False)
        return operator(*tensors)
    finally:
        torch._C._set_grad_enabled(enabled)


def value_restorer(tensors: Sequence[Tensor]) -> Callable[[], None]:
    """Return a function that gives the tensors the values that they have now."""
    return partial(overwrite, tensors, clones(tensors))


_IS_SPARSE = attrgetter("is_sparse")


def are_ordinary(tensors: Sequence[Tensor]) -> bool:
    """Return whether no tensor has a class of its own, such as that of sharded parameters, and all are dense."""
    return {*map(type, tensors)} <= {Tensor, nn.Parameter} and not any(map(_IS_SPARSE, tensors))


@final
class Structure:
    """The parameters and modules that a module is made of.

    It holds all of them, so that no other object gets the id of one that was removed.
    """

    def __init__(self, module: nn.Module) -> None:
        self._modules = list(module.modules())
        self._tables: list[dict[str, Any]] = [
            *(each._parameters for each in self._modules),
            *(each._modules for each in self._modules),
        ]
        self._parameters = list(module.parameters())

    def signature(self) -> list[object]:
        """Return what is different if a parameter or module was added, removed, replaced, frozen or converted.

        It is quick to make and to compare: a step looks at it before anything else.
        """
        filled = [*filter(None, self._tables)]
        names, everything = chain.from_iterable(filled), chain.from_iterable(map(dict.values, filled))
        return [*map(len, self._tables), *names, *map(id, everything), *map(_KIND, self._parameters)]


_KIND = attrgetter("requires_grad", "dtype", "device")


def signature(module: nn.Module) -> list[object]:
    """Return the signature of what a module is made of now, which later changes can be compared with."""
    return Structure(module).signature()


def is_leaf(module: nn.Module) -> bool:
    """Return whether a module has no parameters, no modules in it, and no other state that it saves than buffers."""
    plain = type(module).get_extra_state is nn.Module.get_extra_state and not module._state_dict_hooks
    return plain and not (module._parameters or module._modules)


def leaf_restorer(module: nn.Module) -> Callable[[], None]:
    """Return a function that puts back the buffers, their values and the mode that such a module has now."""
    buffers, training = module._buffers.copy(), module.training
    tensors = [each for each in buffers.values() if each is not None]
    values = clones(tensors)

    def back() -> None:
        module._buffers.clear()
        module._buffers.update(buffers)
        overwrite(tensors, values)
        module.training = training

    return back


def share_hooks(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Let the hooks of the gradients of some parameters be those of others."""
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = attrgetter(name)
        if any(map(is_not, map(hooks, sources), map(hooks, targets))):
            for source, target in zip(sources, targets, strict=True):
                setattr(target, name, hooks(source))


def unscale_and_check_(gradients: list[Tensor], factor: Tensor, found: Tensor | None = None) -> Tensor:
    """Multiply gradients of one device and dtype by a factor; return one nonzero number if any is NaN or infinite.

    This is the kernel of `GradScaler`: exact, and many times faster than a maximum norm. The number is in ``found``,
    or in a new tensor.
    """
    # The kernel expects single precision, whatever the default dtype and that of the gradients are.
    found = torch.zeros(1, dtype=torch.float32, device=factor.device) if found is None else found.zero_()
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, factor)
    return found


def run_backward(tensor: Tensor, gradient: Tensor) -> None:
    """Add the gradients of the leaves, given that of a tensor, in its shape and dtype.

    `Tensor.backward` does the same after checks of both, which take longer than a small operator.
    """
    if type(tensor) is Tensor:
        _engine_run_backward((tensor,), (gradient,), False, False, (), allow_unreachable=True, accumulate_grad=True)
    else:
        tensor.backward(gradient)  # type: ignore[no-untyped-call]


def forget_optimizers(scaler: GradScaler | None, optimizers: Iterable[Optimizer]) -> None:
    """Make the scaler, if there is one, forget that it has unscaled the gradients of these optimizers."""
    if scaler is not None:
        for optimizer in optimizers:
            scaler._per_optimizer_states.pop(id(optimizer), None)


def has_unscaled(scaler: GradScaler, optimizers: Iterable[Optimizer]) -> bool:
    """Return whether the scaler has unscaled gradients of any of these optimizers since its last `update`."""
    states = scaler._per_optimizer_states
    return any(states[id(each)]["stage"] is not OptState.READY for each in optimizers if id(each) in states)


def hook_restorer(module: nn.Module) -> Callable[[], None]:
    """Return a function that gives the module the forward hooks that it has now."""
    tables: list[dict[Any, Any]] = [
        module._forward_hooks,
        module._forward_hooks_with_kwargs,
        module._forward_hooks_always_called,
        module._forward_pre_hooks,
        module._forward_pre_hooks_with_kwargs,
    ]
    saved = [dict(table) for table in tables]

    def back() -> None:
        for table, hooks in zip(tables, saved, strict=True):
            table.clear()
            table.update(hooks)

    return back


def outermost(model: nn.Module, kind: type) -> list[nn.Module]:
    """Return the modules of a type that are in no other one; the model itself if `torch.compile` wraps it.

    A hook inside a compiled module would recompile it, and one of the module that wraps it does not. A module compiled
    in place has no such place and is left out.
    """
    if hasattr(model, "_orig_mod"):
        return [model]
    if isinstance(model, kind):
        return [] if model._compiled_call_impl is not None else [model]
    return [found for child in model.children() for found in outermost(child, kind)]


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
