"""The base class of steppers: a step is a transaction."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from torchsims.normalizers import Normalizer
from torchsims.steppers._accumulation import Accumulated
from torchsims.steppers._copies import Buffers
from torchsims.steppers._distributed import Ranks
from torchsims.steppers._global_batch import GlobalBatch, Sums, check_bounds, reduce_losses
from torchsims.steppers._gradients import clip
from torchsims.steppers._model_checks import ParameterCheck, check_object, check_tensors, renormalized_weights
from torchsims.steppers._modes import Modes
from torchsims.steppers._noise import Generator, RandomGenerators
from torchsims.steppers._notices import DROPPED, Notice
from torchsims.steppers._optimizers import Copies, drop, drop_gradients, restorer, take_step
from torchsims.steppers._passes import Batch, Tasks
from torchsims.steppers._regularizer import Regularizer, Term, check_callable, differentiate
from torchsims.steppers._replicas import ReplicaCheck, make_equal
from torchsims.steppers._reports import Report
from torchsims.steppers._saved import Saved
from torchsims.steppers._states import reloader
from torchsims.steppers._torch_private import forget_optimizers, has_unscaled, value_restorer, without_compile_prefix
from torchsims.steppers._transaction import Transaction, check_outside_closure

__all__ = ["Stepper"]

R = TypeVar("R", bound=Report)


class Stepper(Saved, Generic[R]):
    """A training step in two halves, :meth:`backward` and :meth:`update`, that happens as a whole or not at all."""

    def __init__(
        self,
        model: nn.Module,
        *,
        normalize: Normalizer | None,
        lower_bounds: Mapping[str, float] | None,
        generators: Sequence[Generator],
        process_group: Any,
        regularizer: Regularizer | None,
        tasks: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.normalizer = normalize
        check_object("normalize", normalize, Normalizer, "EMA()")
        self._lower_bounds = dict(lower_bounds or {})
        check_bounds(self._lower_bounds)
        check_callable(regularizer)
        self._regularizer = regularizer
        check_tensors(model)
        self._ranks = Ranks(model, process_group)
        make_equal(model, self._ranks)
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._names = [self._clean_name(name) for name in trainable]
        self._theta = list(trainable.values())
        self._check_parameters = ParameterCheck(model, self._clean_name, self._ranks.sharded)
        self._check_replicas = ReplicaCheck(self._ranks)
        self._buffers = Buffers(model)
        self._generators = RandomGenerators(model, generators)
        self._renormalized = renormalized_weights(model)
        self._tasks = Tasks(expected=None if tasks is None else tuple(tasks))
        self._transaction: Transaction[R] = Transaction(Modes.now(self._ranks.autocast_kinds), lambda: None)
        self._transaction.commit()
        self._copies = Copies(), Copies()  # for the optimizers of an update
        self._dropped = Notice(DROPPED)

    def step(self, task_losses: Callable[..., Any], *micro_batches: Any, scaler: GradScaler | None = None) -> R:
        """Take one step: :meth:`backward`, then :meth:`update`.

        Args:
            task_losses: the closure; called as ``task_losses(model, micro_batch)``, it returns the losses.
            *micro_batches: the batch, in one or several parts; the step is the same however it is split. Without any,
                the closure is called as ``task_losses(model)``.
            scaler: a gradient scaler; all copies step or none. Call ``scaler.update()`` after the step as in any loop;
                if the loop does not, the next step does.
        """
        return self._step(task_losses, *micro_batches, scaler=scaler)

    def backward(
        self, task_losses: Callable[..., Any] | None = None, *micro_batches: Any, scaler: GradScaler | None = None
    ) -> R:
        """Compute the gradients of a step and leave them, unscaled, in ``.grad``; arguments as in :meth:`step`.

        Without a closure, the batch is made of the micro-batches that :meth:`accumulate` kept. If anything fails, on
        any rank, an error is raised and all is as before: parameters, buffers, statistics, optimizers and random
        generators. Gradients that were not used by :meth:`update` are dropped, with a warning.
        """
        self._check_ready()
        closure, micro_batches = self._choose(task_losses, micro_batches)
        self._drop_unused_gradients()
        if scaler is not None and not scaler.is_enabled():
            scaler = None
        if scaler is not None and has_unscaled(scaler, self._optimizers()):
            scaler.update()  # the loop has not called it since the last step
        modes = Modes.now(self._ranks.autocast_kinds)
        transaction: Transaction[R] = Transaction(modes, partial(self._forget, scaler, self._accumulated))
        self._transaction = transaction
        try:
            with modes.for_step():
                batch = Batch(
                    closure,
                    micro_batches=tuple(zip(micro_batches)) or ((),),
                    parameters=self._all_parameters(),
                    tasks=self._tasks,
                    ranks=self._ranks,
                    noise=self._generators.capture(),
                    scale=_unscaled if scaler is None else scaler.scale,
                    modes=modes,
                )
                self._save(batch)
                if self._ranks.size > 1:
                    self._ranks.broadcast(lambda: [tensor for each in self._all_buffers() for tensor in each.tensors()])
                self._drop_gradients()
                report = self._gradients(batch, scaler)
                if report.skipped is not None:
                    transaction.undo()
            transaction.report = report
            self._accumulated = Accumulated()  # the gradients stand for them
        except BaseException:
            transaction.fail()
            raise
        return report

    def update(self, *, scaler: GradScaler | None = None) -> R:
        """Apply the gradients that :meth:`backward` left, unless it reported that the step is skipped.

        Without a :meth:`backward`, take the step of all micro-batches that :meth:`accumulate` kept. If it fails, they
        are still there.

        This is where the optimizers step. If one raises, on any rank, the whole step is undone. For that the parameters
        and the states of the optimizers are copied before. On a processor the memory of the copies is kept for the next
        step where they are small; otherwise it is released after. Several ranks exchange one flag.

        Args:
            scaler: a gradient scaler as in :meth:`step`, for micro-batches of :meth:`accumulate`; otherwise it is an
                argument of :meth:`backward`.

        Returns:
            The report of the step.
        """
        self._check_idle()
        transaction = self._transaction
        if transaction.report is None and self._accumulated:
            return self._step(scaler=scaler)
        report = transaction.report
        if report is None:
            raise RuntimeError(
                "Method `update` should follow `backward` or `accumulate`. Found no gradients that wait for it."
            )
        if scaler is not None:
            raise ValueError("The scaler should be an argument of `backward` if it is called. Found it in `update`.")
        try:
            if report.skipped is None:
                self._update()
            transaction.commit()
        except BaseException:
            transaction.fail()
            raise
        return report

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """The optimizers, the model's first, for learning-rate schedules."""
        return tuple(self._optimizers())

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the gradients between :meth:`backward` and :meth:`update`, every copy's by its own norm.

        Returns:
            The norm of the model's gradients before clipping, those of a method's own parameters included.
        """
        if self._transaction.report is None:
            raise RuntimeError(
                "Gradients should be clipped between `backward` and `update`. Found none that wait for an update."
            )
        norm, *_ = [clip(optimizer, max_norm, norm_type, self._ranks) for optimizer in self._optimizers()]
        return norm

    def end_epoch(self) -> None:
        """Close an epoch, for methods and normalizers that use epoch means. What waits for an update is dropped."""
        self._check_idle()
        self._drop_accumulated()
        self._drop_unused_gradients()
        for module in self._statistics():
            module.end_epoch()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._transaction.commit()

    @abstractmethod
    def _gradients(self, batch: Batch, scaler: GradScaler | None) -> R:
        """Compute the gradients and check them."""

    @abstractmethod
    def _optimizers(self) -> list[Optimizer]:
        """Return the optimizers, the model's first."""

    def _step(self, *batch: Any, scaler: GradScaler | None) -> R:
        before = self._transaction
        try:
            self.backward(*batch, scaler=scaler)
            return self.update()
        except BaseException:
            if self._transaction is not before:  # interrupted between the two
                self._transaction.fail()
            raise

    def _replicated(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters of all copies, by name."""
        return [(f"`{name}`", p) for name, p in zip(self._names, self._theta, strict=True)]

    def _optimizers_of_update(self) -> list[Optimizer]:
        """Return the optimizers that step in :meth:`update`, in their order."""
        return self._optimizers()

    def _after_update(self) -> None:
        """Do what a method does after its optimizers have stepped."""

    def _reversals(self) -> list[Callable[[], None]]:
        """Return functions that restore what a step may change besides statistics, parameters and optimizers."""
        values = [value_restorer(self._renormalized)] if self._renormalized else []
        buffers = [each.snapshot() for each in self._all_buffers()] if self._buffers.names else []
        tasks = [] if self._tasks.agreed else [partial(vars(self._tasks).update, vars(self._tasks).copy())]
        return [*buffers, *values, *self._ranks.reversals(), *tasks, self._drop_gradients]

    def _all_parameters(self) -> Sequence[nn.Parameter]:
        """Return the trainable parameters of all copies."""
        return self._theta

    def _all_buffers(self) -> list[Buffers]:
        """Return the buffers of all copies."""
        return [self._buffers]

    def _reduce_losses(self, *passes: Sums, unit: Tensor | float | None = None) -> list[GlobalBatch]:
        """Return the losses of the batch over all micro-batches and ranks, for each pass, in a unit if one is known."""
        self._tasks.agree(self._ranks)
        return reduce_losses(passes, self._ranks, self._tasks, self._lower_bounds, self.normalizer, unit)

    def _regularize(self, module: nn.Module, buffers: Buffers) -> Term | None:
        """Return the regularizer at the values that a module holds, if there is one."""
        return None if self._regularizer is None else differentiate(self._regularizer, module, buffers, self._ranks)

    def _clean_name(self, name: str) -> str:
        """Return a name without the prefixes of wrappers and compilers, so that states fit with and without them."""
        return without_compile_prefix(name).removeprefix(self._ranks.prefix)

    def _save(self, batch: Batch) -> None:
        """Save all that :meth:`backward` may change."""
        self._transaction.if_failed(*self._reversals(), batch.noise.replay)
        self._transaction.if_unused(*map(reloader, self._statistics()))

    def _forget(self, scaler: GradScaler | None, kept: Accumulated) -> None:
        """Forget a step that has failed, and keep its micro-batches."""
        forget_optimizers(scaler, self._optimizers())
        self._keep(kept)

    def _update(self) -> None:
        optimizers = self._optimizers_of_update()
        self._transaction.if_failed(*map(restorer, optimizers, self._copies))
        with self._ranks.raise_on_all():
            for optimizer in optimizers:
                take_step(optimizer)
        torch.clear_autocast_cache()  # it may hold casts of the old parameters
        self._after_update()

    def _drop_unused_gradients(self) -> None:
        if self._transaction.report is not None and self._transaction.report.skipped is None:
            self._dropped()
        self._transaction.drop()

    def _drop_gradients(self) -> None:
        for optimizer in self._optimizers():
            drop_gradients(optimizer)
        drop(self._theta)

    def _check_ready(self) -> None:
        self._check_idle()
        if torch.is_inference_mode_enabled():
            raise RuntimeError("A step should be taken outside `torch.inference_mode`. Found it enabled.")
        self._check_parameters()
        self._check_replicas(self._replicated)

    def _check_idle(self) -> None:
        """Raise inside of a closure, and if the model holds the values of another copy."""
        check_outside_closure()


def _unscaled(losses: Tensor) -> Tensor:
    return losses
