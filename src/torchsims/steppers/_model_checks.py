"""What a stepper needs of a model: checked at construction, and before every step."""

from collections.abc import Callable, Iterator
from typing import final

from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

__all__ = ["ParameterCheck", "check_tensors"]


def check_tensors(model: nn.Module) -> None:
    """Raise if the model has no trainable parameter, or tensors that cannot be copied."""
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


@final
class ParameterCheck:
    """Raises before a step if the trainable parameters are not those that the model had at construction.

    Args:
        model: the model.
        clean: returns the name of a parameter as it is shown.
        sharded: whether the wrapper exchanges the parameters for others in every pass.
    """

    def __init__(self, model: nn.Module, clean: Callable[[str], str], sharded: bool) -> None:
        self._model, self._clean, self._sharded = model, clean, sharded
        self._trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        self._kinds = [_kind(p) for p in self._trainable.values()]

    def __call__(self) -> None:
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
