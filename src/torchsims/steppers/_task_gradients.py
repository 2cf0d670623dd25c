"""Per-task gradients by the parameters, over the micro-batches of one step."""

from collections.abc import Iterator, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims.losses import Reading
from torchsims.steppers._passes import Batch
from torchsims.steppers._shared import Found, stacked, unstacked
from torchsims.steppers._torch_private import parameters_in_graph

__all__ = ["AtParameters", "add_gradients", "run_closure"]


def run_closure(batch: Batch, module: nn.Module) -> Iterator[Reading]:
    """Call the closure on every micro-batch, with a graph, where no wrapper reduces gradients."""
    batch.noise.replay()
    torch.clear_autocast_cache()  # casts made in a pass without gradients would cut the graph of one with them
    parts = len(batch.micro_batches)
    for micro_batch in batch.micro_batches:
        with batch.ranks.accumulation(last=False):
            with batch.ranks.raise_on_all(parts), torch.enable_grad():
                reading = batch.read(module, micro_batch)
            yield reading


def add_gradients(
    found: Found,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    task: int,
    vectors: Sequence[Tensor] | None = None,
    retain: bool = False,
) -> None:
    """Add the gradients of one task, by input, where the graph reaches it."""
    gradients = torch.autograd.grad(outputs, inputs, vectors, retain_graph=retain, allow_unused=True)
    for each, gradient in zip(found, gradients, strict=True):
        if gradient is not None:
            _add(each, task, gradient)


@final
class AtParameters:
    """One forward pass over a batch and one backward pass per task; each graph is released before the next.

    Args:
        batch: the batch.
        module: the model.
        parameters: its trainable parameters.
        chunk: how many tasks are back-propagated at once.

    Attributes:
        total: the totals of the tasks on this rank, `m`.
        count: the counts of the tasks on this rank, `m`.
        scalars: whether every loss was a scalar without a count.
        aux: what the closure returned beside the losses; a tuple if there are several micro-batches.
        found: by parameter and task, the scaled gradient of the total, where the task's graph reaches the parameter.
        blocks: the gradients of the tasks with labels by the shared parameters, `k x n` for each.
    """

    def __init__(self, batch: Batch, module: nn.Module, parameters: Sequence[nn.Parameter], chunk: int = 1) -> None:
        self._batch = batch
        self._parameters = list(parameters)
        self._chunk = chunk
        self._shared: dict[int, nn.Parameter] = {}
        self.found: Found = [{} for _ in parameters]
        self.blocks: list[Tensor] = []
        readings = [self._backward_and_release(reading) for reading in run_closure(batch, module)]
        total, count, scalars, aux = zip(*readings, strict=True)
        self.total, self.count = torch.stack(total).sum(0), torch.stack(count).sum(0)
        self.scalars = all(scalars)
        self.aux: Any = aux[0] if batch.single else aux

    def select(self, tasks: list[int], shared: list[int]) -> None:
        """Form the blocks of the tasks with labels, one per shared parameter, summed over the ranks."""
        self._shared = {index: self._parameters[index] for index in shared}
        self.blocks = [stacked(self.found[index], p, tasks) for index, p in self._shared.items()]
        self._batch.ranks.sum_all(self.blocks)

    def gramian(self) -> Tensor:
        device = self._batch.ranks.device
        return torch.stack([(block @ block.T).to(device) for block in self.blocks]).sum(0)

    def gradients(self, direction: Sequence[Tensor]) -> dict[int, Tensor]:
        return {i: unstacked(d, p) for (i, p), d in zip(self._shared.items(), direction, strict=True)}

    def _backward_and_release(self, reading: Reading) -> tuple[Tensor, Tensor, bool, Any]:
        """Back-propagate every task, and return what was read without its graph."""
        tasks = [i for i, part in enumerate(reading.parts) if part.requires_grad]
        groups = [tasks[i : i + self._chunk] for i in range(0, len(tasks), self._chunk)]
        self._batch.scale(torch.zeros_like(reading.total))  # a scaler that has scaled nothing cannot unscale
        for group in groups:
            pull = self._one if len(group) == 1 else self._several
            pull(reading, group, group is not groups[-1])
        return reading.total.detach(), reading.count, reading.scalars, reading.aux

    def _one(self, reading: Reading, group: list[int], retain: bool) -> None:
        (task,) = group
        add_gradients(self.found, [self._batch.scale(reading.loss(task))], self._parameters, task, retain=retain)

    def _several(self, reading: Reading, group: list[int], retain: bool) -> None:
        """Back-propagate several tasks in one batched pass, whose rows do not tell which parameters a task reaches."""
        total = self._batch.scale(reading.total)
        rows = torch.eye(len(total), dtype=total.dtype, device=total.device)[group]
        reached = [parameters_in_graph(reading.parts[task]) for task in group]
        gradients = torch.autograd.grad(
            total, self._parameters, rows, retain_graph=retain, allow_unused=True, is_grads_batched=True
        )
        for parameter, found, gradient in zip(self._parameters, self.found, gradients, strict=True):
            for row, (task, leaves) in enumerate(zip(group, reached, strict=True)):
                if gradient is not None and id(parameter) in leaves:
                    _add(found, task, gradient[row])


def _add(found: dict[int, Tensor], task: int, gradient: Tensor) -> None:
    gradient = gradient.to_dense() if gradient.is_sparse else gradient
    # Never in place: autograd may return the same tensor twice.
    found[task] = found[task] + gradient if task in found else gradient
