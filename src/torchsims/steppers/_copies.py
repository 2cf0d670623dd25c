"""The challenger: a second set of parameters and buffers, and how the model holds them for a while.

Values are written in place with `copy_`, so that optimizers, hooks, compiled graphs and wrappers keep their tensors.
Frozen parameters are shared by both copies and never copied.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import attrgetter
from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims.steppers._distributed import Ranks
from torchsims.steppers._model_checks import ParameterCheck
from torchsims.steppers._torch_private import clones, overwrite, share_hooks

__all__ = ["Buffers", "Challenger", "JointChallenger", "Lent", "SequentialChallenger"]

_TRAINING = attrgetter("training")


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

    def take(self, other: "Buffers") -> None:
        """Take over the values of another module; where a forward pass has changed a shape, in a new tensor."""
        mine, values = self.tensors(), other.tensors()
        alike = [a.shape == b.shape for a, b in zip(mine, values, strict=True)]
        if not all(alike):
            mine = [a if same else b.detach().clone() for a, b, same in zip(mine, values, alike, strict=True)]
            self._place(mine)
        overwrite(mine, values)

    def _place(self, tensors: Sequence[Tensor]) -> None:
        for (owner, name), tensor in zip(self._places, tensors, strict=True):
            if owner.get_buffer(name) is not tensor:
                setattr(owner, name, tensor)


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
        self._own: tuple[list[Tensor], Callable[[], None]] | None = None  # the model's own values, while it is lent

    @property
    def lent(self) -> bool:
        """Whether the model holds the challenger's values."""
        return self._own is not None

    def tensors(self) -> list[Tensor]:
        """Return all parameters and buffers."""
        return [*self.parameters, *self.buffers.tensors()]

    def lend(self) -> nn.Module:
        """Let the model hold the challenger's values, until :meth:`restore_model`."""
        self._ranks.reshard()
        self._own = clones(self._theta), self._model_buffers.snapshot()  # from here on the model can be restored
        overwrite(self._theta, self.parameters)
        self._model_buffers.take(self.buffers)
        torch.clear_autocast_cache()  # it may hold casts of the old values
        return self._model

    def restore_model(self) -> None:
        """Give the model its own values, if it is lent; can be called again after an interrupt."""
        if self._own is None:
            return
        self._ranks.reshard()
        values, restore_buffers = self._own
        overwrite(self._theta, values)
        restore_buffers()
        torch.clear_autocast_cache()
        self._own = None

    def take_back(self, parameters: bool = True) -> None:
        """Take over the buffers of the lent model and, where users may change them, its parameters."""
        if parameters:
            overwrite(self.parameters, self._theta)
        self.buffers.take(self._model_buffers)

    @abstractmethod
    def module(self) -> AbstractContextManager[nn.Module]:
        """Provide a module that holds the challenger's values; if the body raises, :meth:`restore_model` is due."""

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


@final
class SequentialChallenger(Challenger):
    """A challenger that borrows the model: one module, one graph at a time."""

    def __init__(self, model: nn.Module, theta: Sequence[nn.Parameter], buffers: Buffers, ranks: Ranks) -> None:
        super().__init__(model, theta, buffers, ranks)
        self.parameters = [nn.Parameter(value) for value in clones(theta)]
        self.buffers, self.module_buffers = buffers.copied(), buffers

    @contextmanager
    def module(self) -> Iterator[nn.Module]:
        yield self.lend()
        self.take_back(parameters=False)
        self.restore_model()

    def collect_gradients(self) -> None:
        for mine, p in zip(self.parameters, self._theta, strict=True):
            keep = p.grad is None or not self._ranks.views_buckets
            mine.grad = p.grad if keep or p.grad is None else p.grad.clone()
            p.grad = None


def _frozen(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if not p.requires_grad]


@final
class JointChallenger(Challenger):
    """A challenger with a module of its own, so that both graphs can be alive.

    Args:
        check: has looked at the parameters of the model before every step.
        shared: objects that both modules hold, such as random generators.
    """

    def __init__(
        self,
        model: nn.Module,
        theta: Sequence[nn.Parameter],
        buffers: Buffers,
        ranks: Ranks,
        check: ParameterCheck,
        shared: Sequence[object] = (),
    ) -> None:
        super().__init__(model, theta, buffers, ranks)
        self._check, self._frozen = check, _frozen(model)
        self._twin = copy.deepcopy(model, memo={id(each): each for each in (*self._frozen, *shared)})
        self._twin.zero_grad(set_to_none=True)
        self.parameters = [p for p in self._twin.parameters() if p.requires_grad]
        self.buffers = self.module_buffers = Buffers(self._twin)
        self._look()

    def module(self) -> AbstractContextManager[nn.Module]:
        if self._check.structure is not self._seen:
            self._check_frozen()
            self._look()
        if [*map(_TRAINING, self._twins)] != [*map(_TRAINING, self._originals)]:
            for twin, original in zip(self._twins, self._originals, strict=True):
                twin.training = original.training
        share_hooks(self._theta, self.parameters)
        return nullcontext(self._twin)

    def _look(self) -> None:
        """Remember what the model is made of now, and which module of it belongs to which of the second one."""
        self._seen = self._check.structure
        self._twins, self._originals = list(self._twin.modules()), list(self._model.modules())

    def _check_frozen(self) -> None:
        if list(map(id, self._frozen)) != list(map(id, _frozen(self._model))):
            raise ValueError(
                "The frozen parameters should be those of the construction with `evaluation = 'joint'`. "
                "Found others since: make a new method for them."
            )

    def collect_gradients(self) -> None:
        if [p for p in self._theta if p.grad is not None]:
            raise ValueError(
                "The closure should compute the losses with the model it is given. "
                "Found gradients in another copy of the model."
            )


@final
class Lent(AbstractContextManager[nn.Module]):
    """Lets the model hold a copy's values inside a ``with`` block; an interrupt in between leaves it its own.

    A class and not a generator: an interrupt between the generator and the block would be seen by neither.
    """

    _entered = False

    def __init__(self, copy: Challenger, check: Callable[[], None]) -> None:
        self._copy, self._check = copy, check
        self._gradients_enabled = torch.is_grad_enabled()

    def __enter__(self) -> nn.Module:
        self._check()
        self._entered = True
        try:
            return self._copy.lend()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *_: Any) -> None:
        try:
            self._gradients_enabled = torch.is_grad_enabled()
            try:
                self._copy.take_back()
            except BaseException:
                self._copy.take_back()  # all of it, while the model still has the values
                raise
            finally:
                self._copy.restore_model()
        except BaseException:
            self._restore()
            raise
        self._entered = False

    def __del__(self) -> None:
        if self._entered:  # interrupted before the first line of `__exit__`
            self._copy.restore_model()

    def _restore(self) -> None:
        torch.set_grad_enabled(self._gradients_enabled)  # an interrupt may have come inside of `no_grad`
        self._copy.restore_model()
