"""Scalarized: the stepper of loss-level methods, exact over micro-batches and ranks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from torchsims._statistics import WithStatistics
from torchsims.normalizers import Normalizer
from torchsims.scalarizations import Scalarization, from_torchjd
from torchsims.steppers._base import Stepper
from torchsims.steppers._global_batch import GlobalBatch, check_counts, check_losses, to_host
from torchsims.steppers._gradients import nonfinite_gradients, raise_nonfinite_gradients, reduce_and_unscale
from torchsims.steppers._model_checks import check_object
from torchsims.steppers._noise import Generator
from torchsims.steppers._optimizers import OptimizerFactory, load_optimizer, make_optimizer
from torchsims.steppers._passes import Batch, Pass
from torchsims.steppers._regularizer import Regularizer, Term, check_terms, tensors_of
from torchsims.steppers._reports import NO_LABEL, OVERFLOW, ObjectiveReport, nan_if_unlabelled
from torchsims.steppers._states import check_type

__all__ = ["Scalarized"]


@final
class Scalarized(Stepper[ObjectiveReport]):
    r"""Gradient steps on one objective :math:`S(L_1, \ldots, L_m)`, made by a loss-level method.

    The coefficients :math:`\partial S / \partial L_i` come from the losses of the whole batch, over all micro-batches
    and ranks; then one backward pass gives the gradient. One forward and one backward pass; with several micro-batches
    two forward passes, unless the method is linear in the losses and the closure returns scalars without counts.

    With a ``regularizer`` :math:`R` the steps are those of :math:`S + R(\theta)`. Its gradient is added once per step,
    as it is: no loss, micro-batch, rank or scale changes it. The report's objective is :math:`S` alone.

    Args:
        model: a module, plain, inside `DistributedDataParallel`, or sharded with `fully_shard`.
        scalarization: the method, from :mod:`torchsims.scalarizations`, your own, or a `Scalarizer` of TorchJD.
        outer: makes the optimizer from the named trainable parameters of the model and the scalarization.
        normalize: divides the losses by a running estimate of their size first.
        lower_bounds: a bound by task for losses that can go below zero; their distance to it is what counts.
        generators: random generators of your own that the closure draws from, of PyTorch, numpy or Python; those of the
            model's modules and the global ones need not be given. All passes see the same numbers.
        process_group: the ranks that share a batch; those of the wrapper, or else all of them, by default.
        regularizer: a term :math:`R(\theta)` of the objective that belongs to no task, as a function of the model (the
            one inside `DistributedDataParallel`) that returns a scalar and draws no random numbers. In a step that is
            skipped it is left out too.

    Attributes:
        outer: the optimizer, an ordinary one: schedulers and parameter groups work on it.
        scalarization: the method.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from torch.optim import Adam
        >>> from torchsims import Scalarized
        >>> from torchsims.scalarizations import EW
        >>> model = torch.nn.Linear(4, 2)
        >>> method = Scalarized(model, EW(), outer=partial(Adam, lr=1e-3))
        >>> report = method.step(lambda model, x: (model(x) - 1).square().mean(0), torch.randn(8, 4))
        >>> report.weights
        {'0': 0.5, '1': 0.5}
    """

    def __init__(
        self,
        model: nn.Module,
        scalarization: nn.Module,
        *,
        outer: OptimizerFactory,
        normalize: Normalizer | None = None,
        lower_bounds: Mapping[str, float] | None = None,
        generators: Sequence[Generator] = (),
        process_group: Any = None,
        regularizer: Regularizer | None = None,
    ) -> None:
        if isinstance(scalarization, str | type):
            check_object("scalarization", scalarization, Scalarization, "EW()")
        if not isinstance(scalarization, Scalarization):
            scalarization = from_torchjd(scalarization)
        self.scalarization = scalarization
        super().__init__(
            model,
            normalize=normalize,
            lower_bounds=lower_bounds,
            generators=generators,
            process_group=process_group,
            regularizer=regularizer,
            tasks=scalarization.tasks,
        )
        own = [(f"scalarization.{name}", p) for name, p in scalarization.named_parameters()]
        self.outer = make_optimizer("outer", outer, [*zip(self._names, self._theta, strict=True), *own], model)
        self._observe: Callable[[], None] | None = None
        self._scalar_losses: Tensor | None = None

    def _gradients(self, batch: Batch, scaler: GradScaler | None) -> ObjectiveReport:
        early = None if batch.single else self._early_coefficients(batch)
        here = Pass(batch, self.model, self._buffers, keep_graph=batch.single, coefficients=early)
        (reduced,) = self._reduce_losses(here)
        self.scalarization.name_tasks(self._tasks.names)
        self._remember_scalars(reduced.losses if here.scalars else None)
        objective, coefficients, own = self._differentiate(reduced)
        if early is None:
            here.backward(reduced.per_total(coefficients))
        reduce_and_unscale(self.outer, self._theta, self._ranks, scaler, here.connected)
        # After unscaling: the method's own gradients come from the losses and were never scaled.
        if own:
            for p, gradient in zip(self.scalarization.parameters(), own, strict=True):
                p.grad = gradient
        term = self._regularize(self.model, self._buffers)
        if term is not None:
            term.add_to(self._theta, self._ranks)
        if self.scalarization.observes:
            self._observe = lambda: self._observe_after_step(batch, reduced.unit)
        weights = reduced.per_loss(coefficients)
        return self._report(batch, reduced, objective, weights, term, here.aux, scaled=scaler is not None)

    def _differentiate(self, reduced: GlobalBatch) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Return S, its derivatives by the losses, and those by the method's own parameters."""
        known = reduced.adjusted if reduced.mask is None else reduced.adjusted.where(reduced.mask, 1)
        closed = self.scalarization.closed_form(known, reduced.mask)
        if closed is not None:
            return *closed, ()
        losses = reduced.adjusted.detach().requires_grad_()
        own = tuple(self.scalarization.parameters())
        with torch.enable_grad():
            objective = self.scalarization(losses, reduced.labelled, check=False)
            coefficients, *gradients = torch.autograd.grad(objective, (losses, *own), materialize_grads=True)
        return objective.detach(), coefficients, tuple(gradients)

    def _early_coefficients(self, batch: Batch) -> Tensor | None:
        """Return the coefficients of the totals where they do not depend on the losses, else nothing.

        Several micro-batches then need one forward pass each. That the closure returns scalars, which count one each,
        is known from the second step on; the first step takes the general way to the same numbers.
        """
        if self._scalar_losses is None or not self.scalarization.linear or self.normalizer is not None:
            return None
        ones = torch.ones_like(self._scalar_losses)
        training = self.scalarization.training
        self.scalarization.eval()  # in which it does what its next training step will do, and changes nothing
        try:
            _, coefficients, _ = self._differentiate(GlobalBatch(ones, ones, ones.bool(), ones, 1.0))
        finally:
            self.scalarization.train(training)
        return coefficients / (len(batch.micro_batches) * self._ranks.size)

    def _remember_scalars(self, losses: Tensor | None) -> None:
        """Keep the losses if they are scalars without counts; undone if the step is."""
        self._transaction.if_unused(partial(setattr, self, "_scalar_losses", self._scalar_losses))
        self._scalar_losses = losses

    def _after_update(self) -> None:
        observe, self._observe = self._observe, None  # it refers to the batch, which need not outlive the step
        if observe is not None:
            observe()

    def _observe_after_step(self, batch: Batch, unit: Tensor | float) -> None:
        """Let the method observe the losses of the same batch after the step; the buffers have seen it already."""
        restore = self._buffers.snapshot()
        torch.clear_autocast_cache()
        after = Pass(batch, self.model, self._buffers)
        restore()
        (reduced,) = self._reduce_losses(after, unit=unit)
        labelled, losses = to_host(reduced.mask, reduced.losses)
        labelled = labelled or [True] * len(losses)
        check_losses(self._tasks, losses, labelled, self._lower_bounds, self.scalarization.positive, "the next point")
        self.scalarization.observe(reduced.adjusted, reduced.labelled)

    def _report(
        self,
        batch: Batch,
        reduced: GlobalBatch,
        objective: Tensor,
        weights: Tensor,
        term: Term | None,
        aux: Any,
        scaled: bool,
    ) -> ObjectiveReport:
        floor = self.scalarization.first_losses
        counts, labelled, losses, w, (value,), (bad,), first, *found = to_host(
            reduced.counted,
            reduced.mask,
            reduced.losses,
            weights,
            objective,
            nonfinite_gradients(self._ranks, self.outer),
            None if floor is None else floor.first,
            *tensors_of(term),
        )
        labelled = labelled or [True] * len(losses)
        by_name = self._tasks.by_name
        check_counts(self._tasks, counts)
        check_losses(self._tasks, losses, labelled, self._lower_bounds, self.scalarization.positive, "the model", first)
        regularizer = check_terms(found, "the model")
        skipped = None
        if not any(labelled):
            skipped = NO_LABEL
        elif bad:
            if not scaled:
                raise_nonfinite_gradients(batch, nullcontext(self.model), by_name(losses))
            skipped = OVERFLOW
        return ObjectiveReport(
            losses=by_name(nan_if_unlabelled(losses, labelled)),
            weights=by_name(w),
            objective=value,
            aux=aux,
            skipped=skipped,
            regularizer=regularizer,
        )

    def _optimizers(self) -> list[Optimizer]:
        return [self.outer]

    def _statistics(self) -> list[WithStatistics]:
        return [*super()._statistics(), self.scalarization]

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "outer": self.outer.state_dict(),
            "scalarization": self.scalarization.state_dict(),
            "scalarization_type": type(self.scalarization).__name__,
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        load_optimizer(self.outer, state["outer"])
        self._scalar_losses = None

    def _load_statistics(self, state: Mapping[str, Any]) -> None:
        check_type(self.scalarization, state["scalarization_type"])
        super()._load_statistics(state)
        self.scalarization.load_state_dict(state["scalarization"])
