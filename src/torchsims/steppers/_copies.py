"""The challenger: a second set of parameters and buffers, and how they are exchanged with the model's.

Values are exchanged in place with `copy_`, so that optimizers, hooks, compiled graphs and wrappers keep their tensors.
Frozen parameters are shared by both copies and never copied.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import final

import torch
from torch import Tensor, nn

from torchsims.steppers._distributed import Ranks

__all__ = [
    "Buffers",
    "Challenger",
    "JointChallenger",
    "Noise",
    "SequentialChallenger",
    "clones",
    "overwrite",
]


def clones(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the values of the tensors."""
    return [tensor.detach().clone() for tensor in tensors]


@torch.no_grad()
def overwrite(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into tensors, in place."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


@torch.no_grad()
def _exchange(first: Sequence[Tensor], second: Sequence[Tensor]) -> None:
    for a, b in zip(first, second, strict=True):
        value = a.clone()
        a.copy_(b)
        b.copy_(value)


@final
class Buffers:
    """The buffers that a module has at construction, by place: a forward pass may put new tensors into them.

    Buffers that a module registers later are caches, which both copies share.

    Attributes:
        names: their names in the module.
    """

    def __init__(self, module: nn.Module) -> None:
        self.names = [name for name, _ in module.named_buffers()]
        self._places = [
            (module.get_submodule(path), name) for path, _, name in (full.rpartition(".") for full in self.names)
        ]

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are there now."""
        return [owner.get_buffer(name) for owner, name in self._places]

    def copied(self) -> "Buffers":
        """Return a copy, in a module of its own."""
        holder = nn.Module()
        for index, value in enumerate(clones(self.tensors())):
            holder.register_buffer(str(index), value)
        return Buffers(holder)

    def snapshot(self) -> Callable[[], None]:
        """Return a function that puts back the tensors and values that are there now."""
        tensors = self.tensors()
        values = clones(tensors)

        def back() -> None:
            self._place(tensors)
            overwrite(tensors, values)

        return back

    def exchange(self, other: "Buffers") -> None:
        """Exchange values; where a forward pass has changed a shape, the tensors themselves."""
        pairs = list(zip(self.tensors(), other.tensors(), strict=True))
        alike = [(a, b) for a, b in pairs if a.shape == b.shape]
        _exchange([a for a, _ in alike], [b for _, b in alike])
        if len(alike) < len(pairs):
            self._place([a if a.shape == b.shape else b for a, b in pairs])
            other._place([b if a.shape == b.shape else a for a, b in pairs])

    def _place(self, tensors: Sequence[Tensor]) -> None:
        for (owner, name), tensor in zip(self._places, tensors, strict=True):
            if owner.get_buffer(name) is not tensor:
                setattr(owner, name, tensor)


@final
class Noise:
    """The state of the random generators that a forward pass draws from, so that it can be replayed."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._cpu = torch.get_rng_state()
        self._others = [(device, torch.get_device_module(device).get_rng_state(device)) for device in devices]

    def replay(self) -> None:
        """Go back to the captured state."""
        torch.set_rng_state(self._cpu)
        for device, state in self._others:
            torch.get_device_module(device).set_rng_state(state, device)


class Challenger(ABC):
    r"""The challenger :math:`\theta'`: its trainable parameters and its buffers.

    Attributes:
        parameters: the trainable parameters, in the order of the model's.
        buffers: the buffers, in the order of the model's.
        module_buffers: the buffers of the module that :meth:`module` provides.
    """

    parameters: list[nn.Parameter]
    buffers: Buffers
    module_buffers: Buffers

    def __init__(self, model: nn.Module, theta: Sequence[nn.Parameter], buffers: Buffers, ranks: Ranks) -> None:
        self._model = model
        self._theta = list(theta)
        self._model_buffers = buffers
        self._ranks = ranks

    def tensors(self) -> list[Tensor]:
        """Return all parameters and buffers."""
        return [*self.parameters, *self.buffers.tensors()]

    @contextmanager
    def in_model(self) -> Iterator[nn.Module]:
        """Let the model hold the challenger's values, and the challenger the model's."""
        self._swap()
        try:
            yield self._model
        finally:
            self._swap()

    @abstractmethod
    def module(self) -> AbstractContextManager[nn.Module]:
        """Provide a module that holds the challenger's values."""

    @abstractmethod
    def collect_gradients(self) -> None:
        """Move the gradients of the module's backward pass to the challenger's parameters."""

    @torch.no_grad()
    def perturb(self, distance: float, seed: int) -> None:
        """Move every coordinate by ``distance``, up or down at random with a seed; the same on every rank."""
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters:
            coordinates = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            coins = torch.randint(2, coordinates.shape, generator=generator)
            signs = (2 * coins - 1).to(device=parameter.device, dtype=coordinates.dtype)
            coordinates.add_(self._ranks.shard_like(signs, parameter), alpha=distance)

    def _swap(self) -> None:
        self._ranks.reshard()
        _exchange(self._theta, self.parameters)
        self._model_buffers.exchange(self.buffers)
        torch.clear_autocast_cache()  # it may hold casts of the values that were exchanged


@final
class SequentialChallenger(Challenger):
    """A challenger that borrows the model: one module, one graph at a time."""

    def __init__(self, model: nn.Module, theta: Sequence[nn.Parameter], buffers: Buffers, ranks: Ranks) -> None:
        super().__init__(model, theta, buffers, ranks)
        self.parameters = [nn.Parameter(value) for value in clones(theta)]
        self.buffers, self.module_buffers = buffers.copied(), buffers

    def module(self) -> AbstractContextManager[nn.Module]:
        return self.in_model()

    def collect_gradients(self) -> None:
        for mine, p in zip(self.parameters, self._theta, strict=True):
            keep = p.grad is None or not self._ranks.views_buckets
            mine.grad = p.grad if keep or p.grad is None else p.grad.clone()
            p.grad = None


def _frozen(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if not p.requires_grad]


@final
class JointChallenger(Challenger):
    """A challenger with a module of its own, so that both graphs can be alive."""

    def __init__(self, model: nn.Module, theta: Sequence[nn.Parameter], buffers: Buffers, ranks: Ranks) -> None:
        super().__init__(model, theta, buffers, ranks)
        self._frozen = _frozen(model)
        self._twin = copy.deepcopy(model, memo={id(p): p for p in self._frozen})
        self._twin.zero_grad(set_to_none=True)
        self.parameters = [p for p in self._twin.parameters() if p.requires_grad]
        self.buffers = self.module_buffers = Buffers(self._twin)

    @contextmanager
    def module(self) -> Iterator[nn.Module]:
        if list(map(id, self._frozen)) != list(map(id, _frozen(self._model))):
            raise ValueError(
                "The frozen parameters should be those of the construction with `evaluation = 'joint'`. "
                "Found others since: make a new method for them."
            )
        for twin, original in zip(self._twin.modules(), self._model.modules(), strict=True):
            twin.training = original.training
        yield self._twin

    def collect_gradients(self) -> None:
        if any(p.grad is not None for p in self._theta):
            raise ValueError(
                "The closure should compute the losses with the model it is given. "
                "Found gradients in another copy of the model."
            )
