"""What a stepper needs of its arguments and of a model: checked at construction, and before every step."""

from collections.abc import Callable, Iterator, Mapping
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from torchsims.steppers._torch_private import Structure

__all__ = ["ParameterCheck", "check_copyable", "check_object", "check_tensors", "check_wrapped", "renormalized_weights"]


def check_object(option: str, value: object, kind: type, example: str) -> None:
    """Raise if an option holds the name or the class of something, or anything else, instead of an object."""
    if value is not None and not isinstance(value, kind):
        found = f"the class `{value.__name__}`" if isinstance(value, type) else repr(value)
        what = "a mapping" if kind is Mapping else "an object"
        raise TypeError(f"Parameter `{option}` should be {what}, such as `{example}`. Found {found}.")


def check_tensors(model: nn.Module) -> None:
    """Raise if the model is none, has no trainable parameter, or has tensors that cannot be copied."""
    if not isinstance(model, nn.Module):
        found = f"the class `{model.__name__}`" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"Parameter `model` should be a module. Found {found}.")
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("The model should have trainable parameters. Found none that requires a gradient.")
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        lazy = isinstance(tensor, UninitializedParameter | UninitializedBuffer)
        if lazy:
            raise ValueError(
                f"All parameters and buffers should have a shape. Found `{name}` without one: "
                "call the lazy modules of the model once, then make the method."
            )
        frozen = isinstance(tensor, nn.Parameter) and not tensor.requires_grad
        if tensor.is_meta and not frozen:
            raise ValueError(
                f"All parameters and buffers should have values. Found `{name}` on the meta device: "
                "call `model.to_empty` and initialize or load the model, then make the method."
            )
    for name, buffer in model.named_buffers():
        if any(stride == 0 and size > 1 for stride, size in zip(buffer.stride(), buffer.shape, strict=True)):
            raise ValueError(
                f"Every element of a buffer should have memory of its own. Found `{name}` made by `expand`: "
                "register `buffer.contiguous()`."
            )


def check_wrapped(model: nn.Module, is_inside: Callable[[nn.Parameter], bool]) -> None:
    """Raise if a wrapper holds only a part of the model: the gradients of the rest would not be reduced."""
    for name, p in model.named_parameters():
        if p.requires_grad and not is_inside(p):
            raise ValueError(
                "The wrapper should hold every trainable parameter of the model. "
                f"Found `{name}` outside of it: wrap the whole model."
            )


def renormalized_weights(model: nn.Module) -> list[Tensor]:
    """Return the weights that a forward pass changes: those of embeddings with `max_norm`."""
    return [module.weight for _, module in _renormalizing(model)]


def check_copyable(model: nn.Module, clean: Callable[[str], str]) -> None:
    """Raise if a second set of values would not fit the model: what two copies need, and one does not."""
    for name, module in _renormalizing(model):
        raise ValueError(
            "The parameters should not change in a forward pass. "
            f"Found `max_norm = {module.max_norm}` in module `{clean(name)}`: limit the norms after the steps instead."
        )
    spans = [
        (*_span(tensor), clean(name), isinstance(tensor, nn.Parameter))
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if type(tensor) in (Tensor, nn.Parameter) and tensor.layout is torch.strided and tensor.numel()
    ]
    end, holder, is_parameter = 0, "", False
    for start, stop, name, parameter in sorted(spans):
        if start < end and (parameter or is_parameter):
            raise ValueError(
                "Every parameter should have memory of its own. "
                f"Found `{holder}` and `{name}` in the same: register a copy, or compute one from the other."
            )
        if stop > end:
            end, holder, is_parameter = stop, name, parameter


def _renormalizing(model: nn.Module) -> list[tuple[str, nn.Embedding | nn.EmbeddingBag]]:
    kinds = nn.Embedding | nn.EmbeddingBag
    return [(n, m) for n, m in model.named_modules() if isinstance(m, kinds) and m.max_norm is not None]


def _span(tensor: Tensor) -> tuple[int, int]:
    """Return where the memory of a tensor starts and ends."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


@final
class ParameterCheck:
    """Raises before a step if the trainable parameters are not those that the model had at construction.

    Args:
        model: the model.
        clean: returns the name of a parameter as it is shown.
        sharded: whether the wrapper exchanges the parameters for others in every pass.

    Attributes:
        structure: what the model was made of in the last check; another object if it had changed.
    """

    def __init__(self, model: nn.Module, clean: Callable[[str], str], sharded: bool) -> None:
        self._model, self._clean, self._sharded = model, clean, sharded
        self.structure = Structure(model)
        self._before = self.structure.signature()
        self._trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        self._kinds = [_kind(p) for p in self._trainable.values()]

    def __call__(self) -> None:
        if not self._sharded and self.structure.signature() == self._before:
            return
        changed = [f"`{self._clean(name)}` {how}" for name, how in self._changes()]
        if changed:
            raise ValueError(
                "The trainable parameters should be those of the construction. "
                f"Found {', '.join(changed)} since: make a new method for them."
            )
        for (name, p), kind in zip(self._trainable.items(), self._kinds, strict=True):
            if _kind(p) != kind:
                raise ValueError(
                    "The parameters should keep the precision and the device that they had at construction. "
                    f"Found `{self._clean(name)}` in {_kind(p)} instead of {kind}: "
                    "convert the model first, then make the method."
                )
        self.structure = Structure(self._model)  # that of a copy, for example
        self._before = self.structure.signature()

    def _changes(self) -> Iterator[tuple[str, str]]:
        now = self._trainable | self._frozen if self._sharded else dict(self._model.named_parameters())
        for name, p in self._trainable.items():
            if name not in now:
                yield name, "removed"
            elif now[name] is not p:
                yield name, "replaced"
            elif not p.requires_grad:
                yield name, "frozen"
        for name, p in now.items():
            if p.requires_grad and name not in self._trainable:
                yield name, "unfrozen" if self._frozen.get(name) is p else "added"


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} on {tensor.device}"
