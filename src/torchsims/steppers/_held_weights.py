"""Weights of a gradient-level method that are held for some steps, and the pass of such a step."""

from collections.abc import Iterable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims._statistics import WithStatistics
from torchsims.aggregations import Aggregation, WeightedAggregation
from torchsims.losses import Reading
from torchsims.steppers._copies import Buffers
from torchsims.steppers._passes import Batch, Pass
from torchsims.steppers._shared import Found
from torchsims.steppers._task_gradients import add_gradients, run_closure

__all__ = ["HeldWeights", "WeightedPass"]


@final
class HeldWeights(WithStatistics):
    """The weights of the last step that computed them, and how many steps there were.

    Args:
        every: the number of steps from one computation to the next.
        aggregation: the method.
        at_parameters: whether its gradients are those by the shared parameters.

    Attributes:
        weights: the weights of the tasks, `m`; NaN for a task that had no label when they were computed.
        steps: the number of steps so far.
    """

    weights: Tensor

    def __init__(self, every: int, aggregation: Aggregation, *, at_parameters: bool) -> None:
        super().__init__()
        if not (isinstance(every, int) and every > 0):
            raise ValueError(f"Parameter `every` should be a positive integer. Found `every = {every}`.")
        if every > 1 and not (at_parameters and isinstance(aggregation, WeightedAggregation)):
            found = aggregation.name if at_parameters else "shared='representation'"
            raise ValueError(
                "Parameter `every` should be 1 for the gradients at a representation, whose passes are short, and for "
                f"methods without weights. Found `every = {every}` and `{found}`."
            )
        self.every = every
        self.steps = 0  # a number and not a buffer: reading it in a step waits for no device
        self._register_statistics("weights")

    @property
    def due(self) -> bool:
        """Whether the next step computes the weights."""
        return self.steps % self.every == 0

    def keep(self, weights: Tensor, tasks: Tensor, like: Tensor) -> None:
        """Keep the weights of the tasks with labels, `k`, among all, as many as ``like``; the others keep theirs."""
        self.weights = self._get_statistic("weights", like).index_copy(0, tasks, weights.to(like))

    def get(self, like: Tensor) -> Tensor:
        """Return the weights of all tasks, `m`; zero for those that have none yet."""
        return self._get_statistic("weights", like).nan_to_num()

    def get_extra_state(self) -> int:
        return self.steps

    def set_extra_state(self, state: int) -> None:
        self.steps = state


@final
class WeightedPass:
    """One forward pass, and one backward pass for all tasks once the coefficients of their totals are known.

    Parameters that are not shared have coefficients of their own, and so a short pass of their own. Several
    micro-batches are passed forward twice, with the same noise and from the same buffers.

    Args:
        batch: the batch.
        model: the model.
        buffers: its buffers.
        parameters: its trainable parameters.

    Attributes:
        total: the totals of the tasks on this rank, `m`.
        count: the counts of the tasks on this rank, `m`.
        aux: what the closure returned beside the losses; a tuple if there are several micro-batches.
        places: where the parameters with a gradient stand.
        blocks: their scaled gradients, summed over the ranks.
    """

    def __init__(self, batch: Batch, model: nn.Module, buffers: Buffers, parameters: Sequence[nn.Parameter]) -> None:
        self._batch, self._model, self._parameters = batch, model, list(parameters)
        self.places: list[int] = []
        self.blocks: list[Tensor] = []
        self._readings: list[Reading] = []
        self._rewind = buffers.snapshot()
        if batch.single:
            self._readings = list(run_closure(batch, model))
        first = self._readings[0] if batch.single else Pass(batch, model, buffers)
        self.total, self.count = first.total.detach(), first.count
        self.aux: Any = first.aux

    def backward(self, tasks: list[int], shared: Sequence[int], ours: Tensor, theirs: Tensor) -> None:
        """Compute the gradients.

        Args:
            tasks: the tasks with labels.
            shared: where the shared parameters stand.
            ours: by how much each task's total counts for them, `m`.
            theirs: by how much for all others, `m`.
        """
        self._batch.scale(torch.zeros_like(self.total))  # a scaler that has scaled nothing cannot unscale
        found: Found = [{} for _ in self._parameters]
        others = [place for place in range(len(found)) if place not in set(shared)]
        for reading in self._graphs():
            known = [task for task in tasks if reading.parts[task].requires_grad]
            losses = [reading.loss(task) for task in known]
            for places, coefficients in ((others, theirs), (shared, ours)):
                if places and losses:
                    vectors = [self._batch.scale(coefficients[task].to(losses[0])) for task in known]
                    inputs, into = [self._parameters[p] for p in places], [found[p] for p in places]
                    add_gradients(into, losses, inputs, 0, vectors, retain=places is others and bool(shared))
        self._sum(found, set(shared))

    def _graphs(self) -> Iterable[Reading]:
        """Return the closure's results with their graphs, once."""
        if self._batch.single:
            readings, self._readings = self._readings, []
            return readings
        self._rewind()
        return run_closure(self._batch, self._model)

    def _sum(self, found: Found, shared: set[int]) -> None:
        """Sum the gradients over the ranks; a parameter that is not shared has one if it has one on any rank."""
        ranks = self._batch.ranks
        present = ranks.sum(torch.tensor([float(bool(each)) for each in found], device=ranks.device)).tolist()
        if not any(present):
            raise ValueError(
                "The closure should compute the losses with the model it is given. "
                "Found no gradient in any of its parameters."
            )
        self.places = [place for place, n in enumerate(present) if n or place in shared]
        # Copies: autograd may return the same tensor twice.
        self.blocks = [found[p].get(0, torch.zeros_like(self._parameters[p])).clone() for p in self.places]
        ranks.sum_all(self.blocks)
