"""The gradients of all tasks on a batch, measured without a step: nothing is different afterwards."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims.steppers._accumulation import check_closure
from torchsims.steppers._copies import Buffers
from torchsims.steppers._distributed import Ranks
from torchsims.steppers._global_batch import check_counts, check_losses, reduce_losses, to_host
from torchsims.steppers._gradients import raise_nonfinite_gradients, unscale
from torchsims.steppers._model_checks import check_tensors, renormalized_weights
from torchsims.steppers._modes import Modes
from torchsims.steppers._noise import Generator, RandomGenerators
from torchsims.steppers._passes import Batch, Tasks
from torchsims.steppers._replicas import ReplicaCheck
from torchsims.steppers._reports import Report
from torchsims.steppers._shared import Sharing, stacked
from torchsims.steppers._task_gradients import AtParameters
from torchsims.steppers._torch_private import value_restorer, without_compile_prefix
from torchsims.steppers._transaction import Transaction, check_outside_closure

__all__ = ["BatchGradients", "GradientProbe"]


@final
@dataclass(frozen=True, eq=False)
class BatchGradients:
    r"""The losses of one batch and the inner products of their gradients, over all micro-batches and ranks.

    Attributes:
        tasks: the tasks, in the order of every tensor here.
        losses: :math:`L_i`, `m`; NaN where no element has a label.
        counts: the number of labels, `m`.
        counted: whether the closure counts its labels.
        shared: :math:`\langle \nabla_p L_i, \nabla_p L_j \rangle`, `m x m`, by the name of the shared parameter
            :math:`p`; NaN for tasks without a label.
        own: the squared norm of the gradient by all parameters that are not shared, `m`.
        aux: what the closure returned beside the losses on this rank, by micro-batch.
    """

    tasks: tuple[str, ...]
    losses: Tensor
    counts: Tensor
    counted: bool
    shared: Mapping[str, Tensor]
    own: Tensor
    aux: tuple[Any, ...]


@final
class GradientProbe:
    """Measures gradients by one forward and m backward passes per batch; parameters, `.grad` and buffers stay.

    Random generators are where they were when the block is left:

        with GradientProbe(model) as probe:
            for batch in batches:
                found = probe.measure(task_losses, batch)

    Args:
        model: a module, plain or inside `DistributedDataParallel`, in any mode.
        shared: names of modules or parameters, if not all that tasks share.
        generators: random generators of your own that the closure draws from.
        process_group: the ranks that share a batch; those of the wrapper, or else all of them, by default.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        shared: Sequence[str] | None = None,
        generators: Sequence[Generator] = (),
        process_group: Any = None,
    ) -> None:
        check_outside_closure()
        check_tensors(model)
        self._model = model
        self._ranks = Ranks(model, process_group)
        if self._ranks.sharded:
            raise ValueError(
                "Gradients of tasks are compared as a whole, and a sharded model never holds them. "
                "Found one sharded with `fully_shard`: use `DistributedDataParallel` or a plain model."
            )
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._names = [without_compile_prefix(name).removeprefix(self._ranks.prefix) for name in trainable]
        self._parameters = list(trainable.values())
        self._check_replicas = ReplicaCheck(self._ranks)
        self._buffers = Buffers(model)
        self._renormalized = renormalized_weights(model)
        self._generators = RandomGenerators(model, generators)
        self._sharing = Sharing(self._names, shared)
        self._tasks = Tasks()

    def __enter__(self) -> "GradientProbe":
        self._before = self._generators.capture()
        return self

    def __exit__(self, *error: object) -> None:
        self._before.replay()

    @property
    def sizes(self) -> dict[str, int]:
        """The number of elements of every trainable parameter, by name."""
        return {name: p.numel() for name, p in zip(self._names, self._parameters, strict=True)}

    def gather(self, value: Any) -> list[Any]:
        """Return ``value`` of every rank, in order of rank."""
        return self._ranks.gather(value)

    def measure(self, task_losses: Callable[..., Any], *micro_batches: Any, scale: float = 1.0) -> BatchGradients:
        """Return the losses and gradients of one batch, in one or several parts.

        Args:
            task_losses: the closure, as in a step.
            *micro_batches: the batch.
            scale: what losses are multiplied with before, and gradients divided by after each backward pass.
        """
        check_closure(task_losses)
        if torch.is_inference_mode_enabled():
            raise RuntimeError("Gradients should be measured outside `torch.inference_mode`. Found it enabled.")
        self._check_replicas(lambda: [(f"`{name}`", p) for name, p in zip(self._names, self._parameters, strict=True)])
        modes = Modes.now(self._ranks.autocast_kinds)
        transaction: Transaction[Report] = Transaction(modes, lambda: None)
        values = value_restorer(self._renormalized)
        transaction.if_failed(self._buffers.snapshot(), values, *self._ranks.reversals())
        try:
            with modes.for_step():
                batch = Batch(
                    closure=task_losses,
                    micro_batches=tuple((micro_batch,) for micro_batch in micro_batches) or ((),),
                    parameters=self._parameters,
                    tasks=self._tasks,
                    ranks=self._ranks,
                    noise=self._generators.capture(),
                    scale=lambda total: total * scale,
                    modes=modes,
                )
                self._ranks.broadcast(self._buffers.tensors)
                return self._measure(batch)
        finally:
            transaction.fail()  # whether it succeeded or not
            torch.clear_autocast_cache()

    def _measure(self, batch: Batch) -> BatchGradients:
        rows = AtParameters(batch, self._model, self._parameters)
        self._tasks.agree(self._ranks)
        (reduced,) = reduce_losses([rows], self._ranks, self._tasks, {}, None)
        counts, labelled, losses = to_host(reduced.count, reduced.labelled, reduced.losses)
        check_counts(self._tasks, counts)
        check_losses(self._tasks, losses, labelled, {}, False, "the model")
        tasks = [task for task, label in enumerate(labelled) if label]
        shared, own = self._inner_products(batch, rows, tasks, counts, losses) if tasks else ({}, [0.0] * len(losses))
        known = torch.tensor(labelled) > 0
        return BatchGradients(
            tasks=self._tasks.names,
            losses=torch.tensor(losses, dtype=torch.float64).where(known, torch.nan),
            counts=torch.tensor(counts, dtype=torch.float64),
            counted=not rows.scalars,
            shared=shared,
            own=torch.as_tensor(own, dtype=torch.float64).where(known, torch.nan),
            aux=(rows.aux,) if batch.single else rows.aux,
        )

    @torch.no_grad()
    def _inner_products(
        self, batch: Batch, rows: AtParameters, tasks: list[int], counts: Sequence[float], losses: Sequence[float]
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Return the inner products by shared parameter, and the squared norms by all others."""
        reached = self._sharing.update(rows.found, len(counts), self._ranks)
        if not any(reached):
            raise ValueError(
                "The closure should compute the losses with the model it is given. "
                "Found no gradient in any of its parameters."
            )
        shared = set(self._sharing.indices())
        blocks: dict[int, tuple[list[int], Tensor]] = {}  # by parameter: the tasks that reach it, and their gradients
        for index, p in enumerate(self._parameters):
            by = tasks if index in shared else [task for task in reached[index] if task in tasks]
            if by and p.numel():
                blocks[index] = by, stacked(rows.found[index], p, by)
        gradients = [block for _, block in blocks.values()]
        self._ranks.sum_all(gradients)
        if not unscale(gradients, batch.scale, self._ranks):
            raise_nonfinite_gradients(batch, nullcontext(self._model), self._tasks.by_name(losses))
        return self._reduce(blocks, shared, torch.tensor(counts, dtype=torch.float64))

    def _reduce(
        self, blocks: Mapping[int, tuple[list[int], Tensor]], shared: set[int], counts: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        size = _largest(blocks, len(counts))  # (task,): squares of very small and very large gradients stay finite
        unit = (size / counts).nan_to_num(0.0)
        found: dict[str, Tensor] = {}
        own = torch.zeros(len(counts), dtype=torch.float64)
        for index, (by, block) in blocks.items():
            block = block / size[by, None].where(size[by, None] > 0, 1).to(block)
            products = (block @ block.T).double().cpu() * unit[by, None] * unit[by]
            if index in shared:
                whole = torch.full((len(counts), len(counts)), torch.nan, dtype=torch.float64)
                whole[torch.tensor(by)[:, None], torch.tensor(by)] = products
                found[self._names[index]] = whole
            else:
                own[by] += products.diagonal()
        return found, own


def _largest(blocks: Mapping[int, tuple[list[int], Tensor]], tasks: int) -> Tensor:
    """Return the size of the largest entry of every task's gradient, `m`."""
    size = torch.zeros(tasks, dtype=torch.float64)
    for by, block in blocks.values():
        size[by] = torch.maximum(size[by], block.abs().amax(1).double().cpu())
    return size
