"""Forward and backward passes of one copy over the micro-batches of one step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims.losses import Reading, read
from torchsims.steppers._copies import Buffers
from torchsims.steppers._distributed import Ranks
from torchsims.steppers._modes import NOTHING, Modes
from torchsims.steppers._noise import Noise
from torchsims.steppers._torch_private import run_backward
from torchsims.steppers._transaction import running_closure

__all__ = ["Batch", "Pass", "Tasks"]


@final
@dataclass
class Tasks:
    """The tasks of a run, fixed by the first step.

    Attributes:
        names: the tasks in the order of every tensor of losses; empty before the first step.
        named: whether the closure names its tasks.
        expected: the tasks that the method was made for, in its order, if it was.
        agreed: whether all ranks are known to have the same tasks; none of this changes any more.
    """

    names: tuple[str, ...] = ()
    named: bool = False
    expected: tuple[str, ...] | None = None
    agreed: bool = False

    @property
    def order(self) -> tuple[str, ...]:
        """The order in which losses should be read, if it is known."""
        return self.names or self.expected or ()

    def check(self, reading: Reading) -> None:
        """Fix the tasks in the first step; raise if they are others later."""
        if reading.names is self.names and reading.named is self.named:  # read in the order of these
            return
        if not self.names:
            self._fix(reading)
        if self.named != reading.named or (self.named and set(self.names) != set(reading.names)):
            raise ValueError(
                f"The closure should return the tasks {list(self.names)} in every call"
                + (", as the method was given them" if self.expected else "")
                + f". Found {list(reading.names)}."
            )
        if len(self.names) != len(reading.names):
            raise ValueError(
                f"The closure should return {len(self.names)} losses in every call. Found {len(reading.names)}."
            )

    def agree(self, ranks: Ranks) -> None:
        """Check once that all ranks have the same tasks."""
        if self.agreed:
            return
        for rank, names in enumerate(ranks.gather(self.names)):
            if names != self.names:
                raise ValueError(
                    f"The closure should return the same tasks on every rank. "
                    f"Found {list(self.names)} here and {list(names)} on rank {rank}."
                )
        self.agreed = True

    def by_name(self, values: Sequence[float]) -> dict[str, float]:
        """Return values in order as values by name."""
        return dict(zip(self.names, values, strict=True))

    def tensor(self, values: Mapping[str, float], default: float, like: Tensor, option: str) -> Tensor:
        """Return an option given by name as a tensor in order."""
        unknown = sorted(set(values) - set(self.names))
        if unknown:
            raise ValueError(
                f"Parameter `{option}` should name tasks among {list(self.names)}. Found `{option}` for {unknown}."
            )
        return torch.tensor([values.get(name, default) for name in self.names], dtype=like.dtype, device=like.device)

    def _fix(self, reading: Reading) -> None:
        self.named = reading.named
        self.names = reading.names if self.expected is None else self.expected


@final
@dataclass
class Batch:
    """The inputs of one step: the closure, its micro-batches, and all that must be the same in every pass over them.

    Attributes:
        parameters: the trainable parameters of all copies.
        single: whether there is one micro-batch, whose graph can be kept until its coefficients are known.
    """

    closure: Callable[..., Any]
    micro_batches: tuple[tuple[Any, ...], ...]
    parameters: Sequence[nn.Parameter]
    tasks: Tasks
    ranks: Ranks
    noise: Noise
    scale: Callable[[Tensor], Tensor]
    modes: Modes
    single: bool = field(init=False)

    def __post_init__(self) -> None:
        self.single = len(self.micro_batches) == 1

    def read(self, module: nn.Module, micro_batch: tuple[Any, ...]) -> Reading:
        """Call the closure, and read what it returns."""
        with running_closure(self.parameters):
            output = self._call(module, micro_batch)
        reading = read(output, self.tasks.order)
        self.tasks.check(reading)
        if (reading.constant or self.ranks.wrapped) and torch.is_grad_enabled():
            self._require_grad(reading)
        return reading

    def _call(self, module: nn.Module, micro_batch: tuple[Any, ...]) -> Any:
        if not (self.ranks.wrapped or self.modes.autocast):
            return self.closure(module, *micro_batch)
        with self.ranks.forward(module), self.modes.for_closure():
            return self.closure(module, *micro_batch)

    def _require_grad(self, reading: Reading) -> None:
        for name in reading.constant:
            index = reading.names.index(name)
            if reading.count[index] != 0:
                raise ValueError(
                    f"The loss of task `{name}` should depend on the model's parameters. "
                    f"Found a loss of {reading.total[index].item()} that does not require a gradient."
                )
        if self.ranks.wrapped and not reading.total.requires_grad:
            raise ValueError(
                "The losses of a rank without labels should stay connected to the model, whose wrapper waits for its "
                "gradients: multiply its outputs by zero. Found losses that do not require a gradient."
            )


@final
class Pass:
    """One copy's pass over a batch: its losses at once, its gradients when their coefficients are known.

    With a single micro-batch the graph can be kept in between. Otherwise the forward passes are repeated, with the same
    noise and from the same buffers, and each micro-batch's graph is released before the next is built.

    Args:
        batch: the batch.
        module: the module that holds the copy.
        buffers: its buffers.
        keep_graph: whether to keep the graph of a single micro-batch.
        coefficients: the coefficients, where they are known beforehand: then the gradients are computed at once.

    Attributes:
        total: the totals of the tasks on this rank, `m`.
        count: the counts of the tasks on this rank, `m`; none for one micro-batch of scalars, which count one.
        scalars: whether every loss was a scalar without a count.
        aux: what the closure returned beside the losses; a tuple if there are several micro-batches.
        connected: whether any gradient could be computed; a batch without labels may have none.
    """

    def __init__(
        self,
        batch: Batch,
        module: nn.Module,
        buffers: Buffers,
        *,
        keep_graph: bool = False,
        coefficients: Tensor | None = None,
    ) -> None:
        self._batch = batch
        self._module = module
        self.connected = False
        self._rewind = None if keep_graph or coefficients is not None else buffers.snapshot()
        readings = self._run_closure(keep_graph, coefficients, only_scalars=coefficients is not None)
        self._graph = readings[0].total if keep_graph else None
        if batch.single:
            first = readings[0]
            self.total, self.count, self.aux = first.total.detach(), first.counted, first.aux
            self.scalars = first.counted is None
            return
        self.total = torch.stack([reading.total.detach() for reading in readings]).sum(0)
        self.count = torch.stack([reading.count for reading in readings]).sum(0)
        self.aux = tuple(reading.aux for reading in readings)
        self.scalars = all(reading.scalars for reading in readings)

    def backward(self, coefficients: Tensor) -> None:
        """Add the gradients of `sum_i coefficient_i * total_i` to the module's parameters.

        Args:
            coefficients: by how much each task's total on this rank counts, `m`.
        """
        if self._rewind is not None:
            self._rewind()
            self._run_closure(True, coefficients)
        elif self._graph is not None:
            self._backward(self._graph, coefficients)
            self._graph = None

    def _run_closure(self, grad: bool, coefficients: Tensor | None, only_scalars: bool = False) -> list[Reading]:
        """Call the closure on every micro-batch and, where the coefficients are known, back-propagate each at once."""
        batch, ranks = self._batch, self._batch.ranks
        batch.noise.rewind()
        torch.clear_autocast_cache()  # casts made in a pass without gradients would cut the graph of one with them
        if ranks.size == 1 and not ranks.wrapped and batch.single and grad and coefficients is None:
            return [batch.read(self._module, batch.micro_batches[0])]  # as below, where all contexts do nothing
        readings = []
        parts = len(batch.micro_batches)
        for index, micro_batch in enumerate(batch.micro_batches):
            with ranks.accumulation(last=index + 1 == parts):
                # Gradients are enabled in a step.
                with ranks.raise_on_all(parts), NOTHING if grad or coefficients is not None else torch.no_grad():
                    reading = batch.read(self._module, micro_batch)
                    if only_scalars and not reading.scalars:
                        raise ValueError(
                            "The closure should return scalar losses as in the first step. Found `TaskLosses`."
                        )
                if coefficients is not None:
                    self._backward(reading.total, coefficients)
                    reading = replace(reading, total=reading.total.detach(), parts=())  # lets go of the graph
            readings.append(reading)
        return readings

    def _backward(self, total: Tensor, coefficients: Tensor) -> None:
        """Back-propagate `sum_i coefficient_i * total_i`, whose gradient in the totals is known."""
        gradient = coefficients.to(total)
        if self._batch.ranks.wrapped:
            gradient = gradient * self._batch.ranks.size  # the wrapper averages; the batch's total is a sum
        # Even without a graph: a scaler that has scaled nothing cannot unscale.
        gradient = self._batch.scale(gradient)
        if total.requires_grad:
            self.connected = True
            run_backward(total, gradient)
