"""Per-task gradients by a shared representation, and their back-propagation to the parameters."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims.aggregations import Aggregation
from torchsims.losses import Reading
from torchsims.steppers._copies import Buffers
from torchsims.steppers._passes import Batch
from torchsims.steppers._shared import Found, stacked, unstacked
from torchsims.steppers._task_gradients import add_gradients, run_closure
from torchsims.steppers._torch_private import map_tensors

__all__ = ["AtRepresentation", "find_features"]


@final
class AtRepresentation:
    """One forward pass, one backward pass per task to the representation, and one from there for all tasks.

    The representation is what a module returns; in the passes of the tasks it is cut out of the graph. Of a single
    micro-batch the graph behind it is kept; several are passed through once more when the direction is known.

    Args:
        batch: the batch.
        model: the model.
        buffers: its buffers.
        parameters: its trainable parameters.
        features: the module whose output is the representation.

    Attributes:
        total: the totals of the tasks on this rank, `m`.
        count: the counts of the tasks on this rank, `m`.
        aux: what the closure returned beside the losses; a tuple if there are several micro-batches.
        found: the gradients of the parameters behind the representation, which are the heads.
        blocks: the gradients of the tasks with labels by the representation, `k x n` for each of its tensors.
    """

    def __init__(
        self, batch: Batch, model: nn.Module, buffers: Buffers, parameters: Sequence[nn.Parameter], features: nn.Module
    ) -> None:
        self._batch, self._model, self._features = batch, model, features
        self._parameters = list(parameters)
        self._rewind = None if batch.single else buffers.snapshot()
        self._outputs: list[Tensor] = []  # with their graphs, of the last micro-batch
        self._at: list[tuple[Tensor, dict[int, Tensor]]] = []  # every tensor, and the gradients by it
        self._sizes: list[int] = []  # how many tensors each micro-batch has
        self.found: Found = [{} for _ in parameters]
        self.blocks: list[Tensor] = []
        with self._cut() as leaves:
            readings = [self._backward_and_release(reading, leaves) for reading in run_closure(batch, model)]
        total, count, aux = zip(*readings, strict=True)
        self.total, self.count = torch.stack(total).sum(0), torch.stack(count).sum(0)
        self.aux: Any = aux[0] if batch.single else aux

    def select(self, tasks: list[int], shared: list[int]) -> None:
        """Form the blocks of the tasks with labels."""
        if shared:
            raise ValueError(
                "All that tasks share should come before the output of `features`. "
                f"Found {len(shared)} parameters behind it that several tasks use."
            )
        self.blocks = [stacked(found, leaf, tasks) for leaf, found in self._at]

    def gramian(self) -> Tensor:
        ranks = self._batch.ranks
        return ranks.sum(torch.stack([(block @ block.T).to(ranks.device) for block in self.blocks]).sum(0))

    def gradients(self, direction: Sequence[Tensor]) -> dict[int, Tensor]:
        found: Found = [{} for _ in self._parameters]
        vectors = [unstacked(self._batch.scale(d), leaf) for d, (leaf, _) in zip(direction, self._at, strict=True)]
        if self._rewind is None:
            self._add(found, self._outputs, vectors)
            self._outputs = []
        else:
            self._rewind()
            sizes = iter(self._sizes)
            with self._cut(detach=False):
                for _ in run_closure(self._batch, self._model):
                    size = next(sizes)
                    self._add(found, self._outputs, vectors[:size])
                    self._outputs, vectors = [], vectors[size:]
        return self._summed(found)

    def _add(self, found: Found, outputs: list[Tensor], vectors: Sequence[Tensor]) -> None:
        add_gradients(found, outputs, self._parameters, 0, vectors)

    def _summed(self, found: Found) -> dict[int, Tensor]:
        """Return the unscaled sums over the ranks."""
        ranks = self._batch.ranks
        present = ranks.sum(torch.tensor([float(bool(each)) for each in found], device=ranks.device))
        factor = 1 / self._batch.scale(torch.ones((), device=ranks.device))
        summed = {
            index: found[index].get(0, torch.zeros_like(p)) * factor.to(p)
            for index, (p, n) in enumerate(zip(self._parameters, present.tolist(), strict=True))
            if n
        }
        ranks.sum_all(list(summed.values()))
        return summed

    def _backward_and_release(self, reading: Reading, leaves: list[Tensor]) -> tuple[Tensor, Tensor, Any]:
        if not leaves:
            raise ValueError("Module `features` should be called by the closure. Found no call with a gradient.")
        self._batch.scale(torch.zeros_like(reading.total))  # a scaler that has scaled nothing cannot unscale
        at: Found = [{} for _ in leaves]
        tasks = [task for task, part in enumerate(reading.parts) if part.requires_grad]
        for task in tasks:
            loss = self._batch.scale(reading.loss(task))
            add_gradients([*self.found, *at], [loss], [*self._parameters, *leaves], task, retain=task != tasks[-1])
        self._at += zip([leaf.detach() for leaf in leaves], at, strict=True)
        self._sizes.append(len(leaves))
        leaves.clear()
        if not self._batch.single:
            self._outputs = []
        return reading.total.detach(), reading.count, reading.aux

    @contextmanager
    def _cut(self, detach: bool = True) -> Iterator[list[Tensor]]:
        """Record the tensors that the module returns, and replace them by leaves."""
        leaves: list[Tensor] = []

        def note(tensor: Tensor) -> Tensor:
            if not tensor.requires_grad:
                return tensor
            self._outputs.append(tensor)
            if not detach:
                return tensor
            leaves.append(tensor.detach().requires_grad_())
            return leaves[-1]

        handle = self._features.register_forward_hook(lambda _module, _inputs, out: map_tensors(note, out))
        try:
            yield leaves
        finally:
            handle.remove()


def find_features(
    model: nn.Module,
    features: nn.Module | str | None,
    shared: Sequence[str] | None,
    aggregation: Aggregation,
    clean_name: Callable[[str], str],
) -> nn.Module | None:
    """Return the module whose output is the representation, if that is what is shared."""
    if isinstance(shared, str) and shared != "representation":
        raise ValueError(
            f"Parameter `shared` should be a list of names, or 'representation'. Found `shared = {shared!r}`."
        )
    if (features is not None) != (shared == "representation"):
        raise ValueError(
            "Parameters `shared='representation'` and `features` should be given together. "
            f"Found `shared = {shared!r}` and `features = {features!r}`."
        )
    if features is not None and aggregation.needs != "gramian":
        raise ValueError(
            "Parameter `shared` can be 'representation' for methods of the Gramian only. "
            f"Found `{aggregation.name}`, which needs the gradients themselves."
        )
    if features is not None:
        for module in model.modules():
            if not getattr(module, "shares_representation", True):
                raise ValueError(
                    "Parameter `shared` can be 'representation' if all tasks share one representation. "
                    f"Found `{type(module).__name__}`, which computes one per task."
                )
    if not isinstance(features, str):
        return features
    modules: dict[str, nn.Module] = {clean_name(name): each for name, each in model.named_modules()}
    if features not in modules:
        raise ValueError(f"Parameter `features` should name a module of the model. Found `features = {features!r}`.")
    return modules[features]
