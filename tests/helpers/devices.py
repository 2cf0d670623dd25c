"""A second device for a machine that has none: its tensors hold their values on the processor and say otherwise.

`Accelerated` is a tensor of a device called ``lazy``, a type that torch knows and no package here provides. Inside of
`accelerator()` every operation on such tensors is computed on the processor, and

- an operation that mixes them with tensors of the processor is an error, as on a real accelerator;
- every moment in which the host would wait for the device is counted: reading a number, copying to the processor,
  operations whose output has a size that depends on values.
"""

import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("lazy", 0)
aten = torch.ops.aten

# Operations whose output is a value of the host, or has a size that the host has to learn.
WAITING = {aten._local_scalar_dense, aten.equal, aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim}
WAITING |= {aten.unique_consecutive, aten.repeat_interleave}
TRANSFERS = {aten._to_copy, aten.copy_}


class Accelerated(Tensor):
    """A tensor of the second device."""

    value: Tensor

    @staticmethod
    def __new__(cls: type["Accelerated"], value: Tensor) -> "Accelerated":
        made: Accelerated = torch.Tensor._make_wrapper_subclass(
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=DEVICE,
            requires_grad=False,
        )
        made.value = value
        return made

    def tolist(self) -> Any:
        """Return the numbers, as a copy to the processor, which is what a real accelerator does."""
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError("A tensor of the second device should be copied to the processor first.")

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Accelerated({self.value!r})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as the documentation of torch has it
        cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"`{function}` met a tensor of the second device outside of `accelerator()`.")


class Accelerator(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The second device.

    Attributes:
        waits: the operations for which the host waited, in order.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[str] = []

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        here = [isinstance(each, Accelerated) for each in tensors]
        target = kwargs.get("device")
        packet = function.overloadpacket
        if not any(here) and (target is None or torch.device(target).type != DEVICE.type):
            return function(*args, **kwargs)  # of the processor alone
        self._check_mix(packet, function, tensors, here)
        self._count(packet, function, args, tensors, target)
        to_host = target is not None and torch.device(target).type != DEVICE.type
        if target is not None:
            kwargs["device"] = "cpu"
        given, options = tree_map(_unwrap, (args, kwargs))
        found = function(*given, **options)
        if to_host:
            return found
        return _return(function, args, found)

    def _check_mix(self, packet: Any, function: Any, tensors: Sequence[Tensor], here: Sequence[bool]) -> None:
        # As on real ones: transfers may mix, and a number in a tensor of the processor may join.
        foreign = [each for each, inside in zip(tensors, here, strict=True) if not inside and each.ndim > 0]
        if any(here) and foreign and packet not in TRANSFERS:
            raise RuntimeError(f"Expected all tensors on one device. Found `{function}` on two of them.")

    def _count(self, packet: Any, function: Any, args: Any, tensors: Sequence[Tensor], target: Any) -> None:
        downloads = packet is aten._to_copy and target is not None and torch.device(target).type != DEVICE.type
        downloads = downloads or (packet is aten.copy_ and not isinstance(args[0], Accelerated))
        masks = packet in (aten.index, aten.index_put, aten.index_put_) and any(
            each.dtype is torch.bool for each in tree_flatten(args[1])[0] if isinstance(each, Tensor)
        )
        if downloads or masks or packet in WAITING:
            self.waits.append(str(function))


class _Uploads(TorchFunctionMode):
    """Makes tensors of numbers in two steps, as `torch.tensor` does out of the sight of the other mode."""

    def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.pop("device", None) if function in (torch.tensor, torch.as_tensor) else None
        made = function(*args, **kwargs)
        return made if device is None else made.to(device)


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, Accelerated) else value


def _return(function: Any, args: Any, found: Any) -> Any:
    """Return what an operation in place was given, and new tensors of the device otherwise."""
    if function._schema.is_mutable and function._schema.returns and args:
        first = args[0]
        if isinstance(first, Accelerated) and isinstance(found, Tensor) and found is first.value:
            return first
    return tree_map(lambda each: Accelerated(each) if isinstance(each, Tensor) else each, found)


@contextmanager
def accelerator(monkeypatch: Any) -> Iterator[Accelerator]:
    """Provide the second device."""
    module = types.SimpleNamespace(  # its random numbers are those of the processor
        get_rng_state=lambda device: torch.zeros(0),
        set_rng_state=lambda state, device: None,
        manual_seed=lambda seed: None,
    )
    monkeypatch.setattr(torch, DEVICE.type, module, raising=False)
    with _Uploads(), Accelerator() as device:
        yield device


def move(model: nn.Module) -> nn.Module:
    """Move a model to the second device."""
    for module in model.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(Accelerated(p.detach()), p.requires_grad))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, Accelerated(buffer))
    return model
