"""Aggregated: the stepper of gradient-level methods, exact over micro-batches and ranks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from torchsims._statistics import WithStatistics
from torchsims.aggregations import Aggregation, WeightedAggregation, from_torchjd
from torchsims.normalizers import Normalizer
from torchsims.steppers._base import Stepper
from torchsims.steppers._global_batch import GlobalBatch, check_counts, check_losses, to_host
from torchsims.steppers._gradients import (
    inform_scaler,
    lay_out_gradients,
    nonfinite_gradients,
    raise_nonfinite_gradients,
    unscale,
)
from torchsims.steppers._held_weights import HeldWeights, WeightedPass
from torchsims.steppers._model_checks import check_object
from torchsims.steppers._noise import Generator
from torchsims.steppers._optimizers import OptimizerFactory, load_optimizer, make_optimizer
from torchsims.steppers._passes import Batch
from torchsims.steppers._regularizer import Regularizer, check_terms, tensors_of
from torchsims.steppers._reports import NO_LABEL, OVERFLOW, Report, nan_if_unlabelled
from torchsims.steppers._representation import AtRepresentation, find_features
from torchsims.steppers._shared import Heads, Rows, Sharing, heads_of
from torchsims.steppers._states import check_type
from torchsims.steppers._task_gradients import AtParameters
from torchsims.steppers._torch_private import hook_restorer
from torchsims.transforms import Transform

__all__ = ["Aggregated"]


@final
class Aggregated(Stepper[Report]):
    r"""Steps along one direction made of the gradients of all tasks, by a gradient-level method.

    .. math::
        \theta \leftarrow \theta - \eta \, d(g_1, \ldots, g_m), \qquad g_i = \nabla_\theta \psi(L_i), \qquad
        \theta_i \leftarrow \theta_i - \eta \, \nabla_{\theta_i} \psi(L_i)

    - :math:`\theta`: the parameters that tasks share, found automatically: those that the losses of two tasks depend
      on. Where the closure stacks its losses, or the model is compiled as a whole, that is all of them: name the shared
      ones then.
    - :math:`\theta_i`: all others, the heads, which follow their own task, with weight one.
    - :math:`\psi` (``transform``): ``Log()`` makes a log-loss version of any method, whose direction does not depend on
      units; the method's own by default.
    - :math:`L_i`: the losses of the whole batch, over all micro-batches and ranks; tasks without labels are left out.

    One forward and :math:`m` backward passes, and :math:`m` gradients by :math:`\theta` in memory. The passes become
    shorter with ``shared="representation"``: :math:`g_i` is then the gradient by what the module ``features`` returns,
    for all samples, and one pass takes the direction from there to the parameters before it, as MGDA-UB does. It is
    another direction, and :math:`m` gradients of that size are kept: less where the representation of a batch is
    smaller than :math:`\theta`, more elsewhere. Only methods of the Gramian allow that, and several micro-batches need
    a second forward pass. The module is given, and not its output, because the closure then stays as it is, whatever
    the model returns.

    With ``every`` above 1 the weights :math:`w` of :math:`d = \sum_i w_i g_i` are computed in every so many steps only
    and held in between (PSMGD, Xu et al., AAAI 2025, arXiv 2412.10961). A step in between is one forward and one
    backward pass for the gradient of :math:`\sum_i w_i \psi(L_i)` by :math:`\theta`, and a short one for the heads,
    which keep their weight of one. Several micro-batches need a second forward pass. A task whose weight was never
    computed, for want of labels, is left to its head until then. Only methods of the Gramian allow that: others have no
    weights.

    With a ``regularizer`` :math:`R` the direction is :math:`d(g_1, \ldots, g_m) + \nabla R`, and no :math:`g_i` has a
    part of it. Its gradient is added once per step, as it is: no loss, micro-batch, rank or scale changes it.

    The weights in a report are those of :math:`\nabla L_i` in :math:`d`; NaN if it is not a sum of them.

    Args:
        model: a module, plain or inside `DistributedDataParallel`, whose gradients are reduced here and not by it.
        aggregation: the method, from :mod:`torchsims.aggregations` or your own, or any of TorchJD's.
        outer: makes the optimizer from the named trainable parameters of the model and the method.
        transform: the function of the losses whose gradients are taken.
        shared: names of modules or parameters, if not all that tasks share, or ``"representation"``.
        features: the module that returns the representation, or its name. A model whose attribute
            ``shares_representation`` is false has none.
        chunk: how many tasks are back-propagated at once, in a batched pass: more are faster for small models on an
            accelerator and need as many times the memory. On a processor one after the other is mostly faster.
        every: the number of steps from one computation of the weights to the next.
        normalize: divides the losses by a running estimate of their size first.
        lower_bounds: a bound by task for losses that can go below zero; their distance to it is what counts.
        generators: random generators of your own that the closure draws from, of PyTorch, numpy or Python; those of the
            model's modules and the global ones need not be given. All passes see the same numbers.
        process_group: the ranks that share a batch; those of the wrapper, or else all of them, by default.
        regularizer: a term :math:`R(\theta)` of the objective that belongs to no task, as a function of the model (the
            one inside `DistributedDataParallel`): a scalar, without random numbers. A skipped step skips it too.

    Attributes:
        outer: the optimizer, an ordinary one: schedulers and parameter groups work on it.
        aggregation: the method.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from torch.optim import Adam
        >>> from torchsims import Aggregated
        >>> from torchsims.aggregations import MGDA
        >>> model = torch.nn.Linear(4, 2)
        >>> method = Aggregated(model, MGDA(), outer=partial(Adam, lr=1e-3))
        >>> report = method.step(lambda model, x: (model(x) - 1).square().mean(0), torch.randn(8, 4))
        >>> round(sum(report.weights.values()), 4)
        1.0
    """

    def __init__(
        self,
        model: nn.Module,
        aggregation: Any,
        *,
        outer: OptimizerFactory,
        transform: Transform | None = None,
        shared: Sequence[str] | None = None,
        features: nn.Module | str | None = None,
        chunk: int = 1,
        every: int = 1,
        normalize: Normalizer | None = None,
        lower_bounds: Mapping[str, float] | None = None,
        generators: Sequence[Generator] = (),
        process_group: Any = None,
        regularizer: Regularizer | None = None,
    ) -> None:
        check_object("transform", transform, Transform, "Log()")
        if isinstance(aggregation, str | type):
            check_object("aggregation", aggregation, Aggregation, "MGDA()")
        self.aggregation = aggregation if isinstance(aggregation, Aggregation) else from_torchjd(aggregation)
        super().__init__(
            model,
            normalize=normalize,
            lower_bounds=lower_bounds,
            generators=generators,
            process_group=process_group,
            regularizer=regularizer,
            tasks=self.aggregation.tasks,
        )
        if self._ranks.sharded:
            raise ValueError(
                "Gradient-level methods take a gradient per task, which `fully_shard` does not reduce over the ranks: "
                "use `DistributedDataParallel` or a plain model."
            )
        if not chunk > 0:
            raise ValueError(f"Parameter `chunk` should be positive. Found `chunk = {chunk}`.")
        self.transform = self.aggregation.transform if transform is None else transform
        if self.transform.needs_reference:
            raise ValueError(f"Parameter `transform` should need no reference here. Found `{self.transform!r}`.")
        self._chunk = chunk
        self._features = find_features(model, features, shared, self.aggregation, self._clean_name)
        self._held = HeldWeights(every, self.aggregation, at_parameters=self._features is None)
        self._sharing = Sharing(self._names, None if isinstance(shared, str) else shared)
        own = [(f"aggregation.{name}", p) for name, p in self.aggregation.named_parameters()]
        self.outer = make_optimizer("outer", outer, [*zip(self._names, self._theta, strict=True), *own], model)

    def _gradients(self, batch: Batch, scaler: GradScaler | None) -> Report:
        rows = self._pass(batch)
        (reduced,) = self._reduce_losses(rows)
        losses, tasks = self._checked_losses(reduced)
        report = Report(losses=losses, weights=dict.fromkeys(losses, 0.0), aux=rows.aux)
        if not tasks:
            inform_scaler(scaler, self.outer, True)
            return replace(report, skipped=NO_LABEL)
        heads = self._split(rows, reduced, tasks)
        if not unscale([*rows.blocks, *heads.values()], batch.scale, self._ranks):
            if scaler is None:
                raise_nonfinite_gradients(batch, nullcontext(self.model), losses)
            return self._overflow(report, scaler)
        # As indices: what a mask selects has a size that the host would wait for.
        w = self._set_gradients(reduced, rows, heads, torch.tensor(tasks, device=reduced.losses.device))
        term = self._regularize(self.model, self._buffers)
        if term is not None:
            term.add_to(self._theta, self._ranks)
        lay_out_gradients(self._theta)
        weights, (bad,), *found = to_host(w, nonfinite_gradients(self._ranks, self.outer), *tensors_of(term))
        report = replace(report, regularizer=check_terms(found, "the model"))
        if bad:
            if scaler is None:
                raise ValueError(
                    f"The direction of `{self.aggregation.name}` should be finite, as all gradients are. "
                    f"Found one that is not, for weights of {self._tasks.by_name(weights)}."
                )
            return self._overflow(report, scaler)
        inform_scaler(scaler, self.outer, True)
        return replace(report, weights=self._tasks.by_name(weights))

    def _overflow(self, report: Report, scaler: GradScaler) -> Report:
        inform_scaler(scaler, self.outer, False)
        return replace(report, skipped=OVERFLOW)

    def _pass(self, batch: Batch) -> Rows | WeightedPass:
        if not self._held.due:
            return WeightedPass(batch, self.model, self._buffers, self._theta)
        if self._features is None:
            return AtParameters(batch, self.model, self._theta, self._chunk)
        return AtRepresentation(batch, self.model, self._buffers, self._theta, self._features)

    def _checked_losses(self, reduced: GlobalBatch) -> tuple[dict[str, float], list[int]]:
        """Check the losses before anything is computed from them; return them, and the tasks that have a label."""
        counts, labelled, losses = to_host(reduced.count, reduced.labelled, reduced.losses)
        positive = self.aggregation.positive or self.transform.positive
        check_counts(self._tasks, counts)
        check_losses(self._tasks, losses, labelled, self._lower_bounds, positive, "the model")
        tasks = [task for task, label in enumerate(labelled) if label]
        return self._tasks.by_name(nan_if_unlabelled(losses, labelled)), tasks

    def _split(self, rows: Rows | WeightedPass, reduced: GlobalBatch, tasks: list[int]) -> Heads:
        """Form the rows of what is shared, and return the gradients of all else by parameter and task."""
        if isinstance(rows, WeightedPass):
            slope = self.transform.slope(reduced.adjusted)
            ours, theirs = reduced.per_total(slope * self._held.get(slope)), reduced.per_total(slope)
            rows.backward(tasks, self._sharing.indices(), ours, theirs)
            return {}
        before = set(self._sharing.shared)
        self._transaction.if_unused(lambda: setattr(self._sharing, "shared", before))
        reached = self._sharing.update(rows.found, len(self._tasks.names), self._ranks)
        if not any(reached) and self._features is None:
            raise ValueError(
                "The closure should compute the losses with the model it is given. "
                "Found no gradient in any of its parameters."
            )
        shared = self._sharing.indices()
        heads = heads_of(rows, self._theta, shared, reached, tasks)
        self._ranks.sum_all(list(heads.values()))
        rows.select(tasks, shared)
        return heads

    @torch.no_grad()
    def _set_gradients(self, reduced: GlobalBatch, rows: Rows | WeightedPass, heads: Heads, tasks: Tensor) -> Tensor:
        """Leave the direction in the gradients, and return the weights of the losses in it, `m`."""
        slope = self.transform.slope(reduced.adjusted)
        self._held.steps += 1
        if isinstance(rows, WeightedPass):
            for index, gradient in zip(rows.places, rows.blocks, strict=True):
                self._theta[index].grad = gradient
            return (self._held.get(slope) * slope / reduced.unit).where(reduced.labelled, 0)
        coefficients = reduced.per_total(slope)  # (task,)
        column = coefficients[tasks, None]
        for block in rows.blocks:
            block.mul_(column.to(block))
        direction, w = self._aggregate(rows, reduced, tasks)
        if self._held.every > 1:
            self._held.keep(w, tasks, slope)
        for index, gradient in rows.gradients(direction).items():
            self._theta[index].grad = gradient
        for (index, task), gradient in heads.items():
            p, part = self._theta[index], gradient * coefficients[task].to(gradient)
            p.grad = part if p.grad is None else p.grad + part
        return torch.zeros_like(slope).index_copy(0, tasks, w.to(slope)) * slope / reduced.unit

    def _aggregate(self, rows: Rows, reduced: GlobalBatch, tasks: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the direction, block by block, and the weights of the rows in it, `k`."""
        losses = reduced.adjusted[tasks]
        if not rows.blocks:  # nothing is shared
            return [], torch.ones_like(losses)
        if isinstance(self.aggregation, WeightedAggregation):
            w = self.aggregation.weights(rows.gramian(), losses, reduced.labelled)
            return [block.T @ w.to(block) for block in rows.blocks], w
        sizes = [block.shape[1] for block in rows.blocks]
        jacobian = torch.cat([block.to(losses.device) for block in rows.blocks], 1)
        rows.blocks.clear()  # all is held once
        direction, w = self.aggregation.combine(jacobian, losses, reduced.labelled)
        return list(torch.split(direction, sizes)), w

    def _reversals(self) -> list[Callable[[], None]]:
        features = [] if self._features is None else [hook_restorer(self._features)]
        return [*super()._reversals(), *features]

    def _optimizers(self) -> list[Optimizer]:
        return [self.outer]

    def _statistics(self) -> list[WithStatistics]:
        return [*super()._statistics(), self.aggregation, self._held]

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "outer": self.outer.state_dict(),
            "aggregation": self.aggregation.state_dict(),
            "aggregation_type": type(self.aggregation).__name__,
            "shared": sorted(self._sharing.shared),
            **({"held": self._held.state_dict()} if self._held.every > 1 else {}),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        load_optimizer(self.outer, state["outer"])
        self._sharing.shared = set(state["shared"])
        if self._held.every > 1:
            self._held.load_state_dict(state["held"])

    def _load_statistics(self, state: Mapping[str, Any]) -> None:
        check_type(self.aggregation, state["aggregation_type"])
        super()._load_statistics(state)
        self.aggregation.load_state_dict(state["aggregation"])
