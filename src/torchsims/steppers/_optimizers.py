"""Optimizers: how they are made, loaded and restored."""

import copy
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain, compress, repeat
from operator import attrgetter, is_, itemgetter, not_
from typing import Any, ClassVar, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchsims.steppers._notices import warn
from torchsims.steppers._states import copied_state
from torchsims.steppers._torch_private import are_ordinary, clones, overwrite, overwrite_ordinary

__all__ = [
    "Copies",
    "OptimizerFactory",
    "drop",
    "drop_gradients",
    "load_optimizer",
    "make_optimizer",
    "parameters_of",
    "restorer",
    "same_options",
    "take_step",
]

OptimizerFactory: TypeAlias = Callable[[list[tuple[str, nn.Parameter]]], Optimizer]
"""What makes an optimizer of named parameters, such as ``partial(Adam, lr=1e-3)``."""

_method_steps: ContextVar[bool] = ContextVar("method_steps", default=False)

_CONSTANT = (int, float, str, bool, type(None))
_CONSTANT_TYPES = {*_CONSTANT}
_OF_TORCH = {each for each in vars(torch.optim).values() if isinstance(each, type)}  # which hold no other optimizer
_TENSORS = {Tensor, nn.Parameter}
_PARAMS = itemgetter("params")
_DTYPE = attrgetter("dtype")


def make_optimizer(
    option: str, factory: OptimizerFactory, named: Iterable[tuple[str, nn.Parameter]], model: nn.Module
) -> Optimizer:
    """Return the optimizer of named parameters; raise if it is not one of these, or needs a closure.

    Args:
        option: the name of the option that holds the factory.
        factory: makes the optimizer.
        named: the parameters by name.
        model: the model, whose frozen parameters do no harm.
    """
    if not callable(factory):
        kind = "optimizer" if isinstance(factory, Optimizer) else "object"
        raise TypeError(
            f"Parameter `{option}` should make an optimizer when it is called with named parameters, such as "
            f"`partial(Adam, lr=1e-3)`. Found an {kind} of type `{type(factory).__name__}`, which cannot be called."
        )
    named = list(named)
    optimizer = factory(list(named))
    if not isinstance(getattr(optimizer, "param_groups", None), list):
        raise TypeError(f"Parameter `{option}` should return an optimizer. Found `{type(optimizer).__name__}`.")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ValueError(
            f"The optimizer should step without a closure. Found `{type(optimizer).__name__}`, which needs one."
        )
    _check_optimized(option, parameters_of(optimizer), named, model)
    _check_dense(option, optimizer, named)
    with suppress(AttributeError):  # a wrapper of an optimizer need not have hooks
        optimizer.register_step_pre_hook(_refuse_foreign_step)
    return optimizer


def drop_gradients(optimizer: Optimizer) -> None:
    """Set all gradients to none, by the optimizer's own `zero_grad` if it has one."""
    if type(optimizer).zero_grad is not Optimizer.zero_grad:
        optimizer.zero_grad(set_to_none=True)
        return
    drop(parameters_of(optimizer))


def drop(parameters: Iterable[nn.Parameter]) -> None:
    """Set the gradients of parameters to none, with no loop in Python: every step does."""
    deque(map(setattr, parameters, repeat("grad"), repeat(None)), maxlen=0)


def take_step(optimizer: Optimizer) -> None:
    """Let an optimizer of a method step, which it refuses to do when anyone else asks."""
    try:
        _method_steps.set(True)
        optimizer.step()
    finally:
        _method_steps.set(False)


def _refuse_foreign_step(optimizer: Optimizer, *_: Any) -> None:
    if not _method_steps.get():
        raise RuntimeError(
            "The optimizers of a method should step in its `update`. "
            f"Found a call of `{type(optimizer).__name__}.step` from elsewhere: remove it from your loop, or, where "
            "Lightning's automatic optimization calls it, derive from `torchsims.lightning.MultiTaskModule`."
        )


def _check_optimized(
    option: str, optimized: Sequence[nn.Parameter], named: Sequence[tuple[str, nn.Parameter]], model: nn.Module
) -> None:
    """Raise if an optimizer has other parameters than the given ones; warn if it has not all of them."""
    given = {id(p) for _, p in named}
    frozen = {id(p) for p in model.parameters() if not p.requires_grad}
    of_model = {id(p): f"`{name}` of the model itself" for name, p in model.named_parameters()}
    foreign = [p for p in optimized if id(p) not in given | frozen]
    if foreign:
        found = of_model.get(id(foreign[0]), f"one of shape {tuple(foreign[0].shape)} from elsewhere")
        raise ValueError(f"Parameter `{option}` should optimize the parameters it is called with. Found {found}.")
    present = {id(p) for p in optimized}
    missing = [f"`{name}`" for name, p in named if id(p) not in present]
    if missing:
        warn(
            f"Parameter `{option}` leaves out {', '.join(missing)}, which will not be trained. "
            "Call `requires_grad_(False)` on what should not be."
        )


def _check_dense(option: str, optimizer: Optimizer, named: Sequence[tuple[str, nn.Parameter]]) -> None:
    """Raise if a fused optimizer has a parameter with gaps in memory, which it would fill instead of the parameter."""
    fused = {id(p) for group in optimizer.param_groups if group.get("fused") for p in group["params"]}
    for name, p in named:
        # What is made like a tensor has its strides, unless there are gaps.
        if id(p) in fused and torch.empty_like(p, device="meta").stride() != p.stride():
            raise ValueError(
                f"Parameter `{option}` should be an optimizer without `fused=True` for parameters with gaps in memory. "
                f"Found `{name}`: make it of a `contiguous` tensor."
            )


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


@final
class Copies:
    """Copies of the tensors of one optimizer, made anew in every step.

    Where they are small their memory is kept: to allocate and to free it would take longer than to fill it. On a
    processor that is so for larger ones, too: what is freed goes back to the system, and comes back page by page.
    """

    KEPT_BYTES: ClassVar[int] = 2**26
    KEPT_BYTES_OF_ACCELERATOR: ClassVar[int] = 2**19  # its memory is scarce, and torch keeps what is freed

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._kinds: list[Any] = []
        self._values: list[Tensor] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # what is pickled starts without any

    def make(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return copies of the values, which hold until the next call."""
        kinds = [*map(Tensor.numel, tensors), *map(_DTYPE, tensors)]
        known = kinds == self._kinds and all(map(is_, tensors, self._tensors))
        if known and self._values:
            overwrite_ordinary(self._values, tensors)
            return self._values
        self._values = []  # free before the new ones are made
        values = clones(tensors)
        self._tensors, self._kinds = (tensors, kinds) if self._small(tensors) else ([], [])
        if known:  # not those of a first step, which has no states of the optimizer yet
            self._values = values
        return values

    def _small(self, tensors: list[Tensor]) -> bool:
        on_processor = all(each.device.type == "cpu" for each in tensors)
        limit = self.KEPT_BYTES if on_processor else self.KEPT_BYTES_OF_ACCELERATOR
        return are_ordinary(tensors) and sum(each.nbytes for each in tensors) <= limit


def restorer(optimizer: Optimizer, copies: Copies) -> Callable[[], None]:
    """Return a function that restores the optimizer and its parameters as they are now, in place."""
    tensors: list[Tensor] = list(parameters_of(optimizer))
    state = _remember_state(optimizer.state, tensors)
    of_torch = type(optimizer) in _OF_TORCH
    groups = [_remember_group(group, tensors, of_torch) for group in optimizer.param_groups]
    attributes = vars(optimizer).copy()
    inside = [] if of_torch else [restorer(each, Copies()) for each in _held(optimizer)]
    values = copies.make(tensors)

    def back() -> None:
        overwrite(tensors, values)
        vars(optimizer).update(attributes)
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(saved)
        for each in inside:
            each()

    return back


def _held(optimizer: Optimizer) -> list[Optimizer]:
    """Return the optimizers with a state of their own that a wrapper of optimizers holds."""
    held = [each for each in vars(optimizer).values() if isinstance(each, Optimizer)]
    return [each for each in held if each.state is not optimizer.state]


def _remember_state(state: Mapping[Any, Any], tensors: list[Tensor]) -> list[tuple[Any, Any]]:
    """Return a copy of the state by parameter, in no dict because parameters hash slowly; tensors as below."""
    if {*map(type, state.values())} == {dict}:
        flat = list(chain.from_iterable(map(dict.values, state.values())))
        if {*map(type, flat)} == {Tensor}:  # the usual state
            tensors += flat
            return list(zip(state, map(dict, state.values()), strict=True))
    return [(p, _remember(each, tensors)) for p, each in state.items()]


def _remember_group(group: dict[str, Any], tensors: list[Tensor], of_torch: bool) -> dict[str, Any]:
    """Return a copy of the options of a group; its list of parameters is put back as it is.

    An optimizer of torch does not change what an option holds, unless it is a tensor.
    """
    saved = group.copy()
    if of_torch and _TENSORS.isdisjoint(map(type, group.values())):
        return saved
    constant = map(_CONSTANT_TYPES.__contains__, map(type, group.values()))
    for name in compress(group, map(not_, constant)):
        if name != "params":
            saved[name] = _remember(group[name], tensors)
    return saved


def _remember(value: Any, tensors: list[Tensor]) -> Any:
    """Return a copy of containers, and add the tensors in them, which are not copied, to a list."""
    if isinstance(value, list | tuple):
        constant = {*map(type, value)} <= _CONSTANT_TYPES
        return type(value)(value if constant else [_remember(each, tensors) for each in value])
    if isinstance(value, dict):
        return {key: _remember(each, tensors) for key, each in value.items()}
    if isinstance(value, Tensor):
        tensors.append(value)
        return value
    return value if isinstance(value, _CONSTANT) else copy.deepcopy(value)


def _load(optimizer: Optimizer, state: dict[str, Any], scalars_only: bool = False) -> None:
    """Load a state with the dtypes it has, in the order in memory of the parameters: torch casts and keeps the order.

    With ``scalars_only`` the others are cast, so that the state of a model fits the same model in another precision.
    """
    optimizer.load_state_dict(state)
    ids = [index for group in state["param_groups"] for index in group["params"]]
    for index, p in zip(ids, parameters_of(optimizer), strict=True):
        for name, saved in state["state"].get(index, {}).items():
            keep = isinstance(saved, Tensor) and (saved.ndim == 0 or not scalars_only)
            if keep and optimizer.state[p][name].dtype != saved.dtype:
                optimizer.state[p][name] = saved.to(optimizer.state[p][name].device)
        for name, value in optimizer.state.get(p, {}).items():
            dense = isinstance(value, Tensor) and value.layout is torch.strided
            if dense and value.shape == p.shape and value.stride() != p.stride():
                optimizer.state[p][name] = torch.empty_like(p, dtype=value.dtype).copy_(value)  # for fused optimizers


def same_options(first: Optimizer, second: Optimizer) -> bool:
    """Return whether two optimizers take the same steps from the same gradients."""
    options = [[{**group, "params": len(group["params"])} for group in each.param_groups] for each in (first, second)]
    return type(first) is type(second) and options[0] == options[1]


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return the parameters of all groups, in a list that is not to be changed."""
    groups = optimizer.param_groups
    if len(groups) == 1:
        parameters: list[nn.Parameter] = groups[0]["params"]
        return parameters
    return list(chain.from_iterable(map(_PARAMS, optimizer.param_groups)))
