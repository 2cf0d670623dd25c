"""SIMS: Algorithm 1 of the paper."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import compress
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from torchsims._statistics import FirstLosses
from torchsims.normalizers import Normalizer
from torchsims.steppers._comparison import Comparison, compare, smooth_max
from torchsims.steppers._global_batch import GlobalBatch, check_counts, check_losses, to_host
from torchsims.steppers._gradients import (
    add_proximal,
    nonfinite_gradients,
    raise_nonfinite_gradients,
    reduce_and_unscale,
    squared_distance,
)
from torchsims.steppers._model_checks import check_object
from torchsims.steppers._noise import Generator
from torchsims.steppers._optimizers import OptimizerFactory, restorer, take_step
from torchsims.steppers._passes import Batch, Pass
from torchsims.steppers._regularizer import Regularizer, Term, check_terms, tensors_of
from torchsims.steppers._reports import NO_LABEL, OVERFLOW, MeritReport, nan_if_unlabelled
from torchsims.steppers._two_copies import Evaluation, TwoCopies
from torchsims.transforms import Log, Transform

__all__ = ["SIMS"]

Order: TypeAlias = Literal["simultaneous", "alternating"]


class SIMS(TwoCopies):
    r"""Scale-invariant merit-function scalarization: compare log losses at the model and at a faster challenger.

    .. math::
        \max_\theta \min_{\theta'} h, \qquad
        h = \frac{\tau \ln \sum_i \exp(d_i / \tau) + \rho \sum_i d_i}{1 + m \rho}
            + \frac{\lambda}{2} \lVert \theta - \theta' \rVert^2, \qquad
        d_i = \psi(L_i(\theta')) - \psi(L_i(\theta))

    - :math:`\theta`: the trainable parameters of ``model``;
    - :math:`\theta'`: the challenger, a copy of them that this object holds;
    - :math:`\tau` (``tau``): the temperature; small values consider only the task with the least to gain;
    - :math:`\lambda` (``prox``): the proximal weight;
    - :math:`\psi` (``transform``): the logarithm, or something to compare it with;
    - :math:`\rho` (``augment``): a floor under all weights, so that no task is starved; 0 in the paper.

    With :math:`\psi = \ln` multiplying a loss by a constant changes nothing, by a power of two not even a bit, so that
    preferences go into ``preference`` and not into the losses: the model then minimises the preference objective
    :func:`torchsims.merit.f0`, relative to the first losses and penalised by the merit function while the challenger is
    better on every task (:func:`torchsims.merit.weights`). More preference for a task never ends with a larger loss of
    it at the minimiser, and :math:`\tau \le 1` spreads the outcomes best.

    With equal rates for both copies, no perturbation and no preference the two stay equal forever, every weight stays
    :math:`1/m`, and the method is gradient descent on the sum of the log losses: give the challenger a larger rate, or
    ``perturb`` it.

    With a ``regularizer`` :math:`R` the saddle is that of :math:`h - R(\theta) + R(\theta')`: both copies descend on
    it, each at its own parameters. Its gradient is added once per step, as it is: no loss, micro-batch, rank or scale
    changes it. The report's merit is :math:`h` alone.

    Args:
        model: a module, plain, inside `DistributedDataParallel`, or sharded with `fully_shard`.
        tau: :math:`\tau > 0`.
        prox: :math:`\lambda \ge 0`. It *repels* the model from the challenger, which it attracts: the saddle's sign.
        outer: makes the model's optimizer from its named trainable parameters, which may not change later.
        inner: makes the challenger's optimizer, usually with a larger rate; see :attr:`inner`.
        transform: :math:`\psi`, the logarithm by default; ``FlooredLog(0.1)`` for losses that can reach zero.
        augment: :math:`\rho \ge 0`; a preference objective has no such floor.
        preference: :math:`p_i > 0` by task, 1 for those not named; ``None`` is the paper's method, without any.
        normalize: divides the losses by a running estimate of their size first; has no effect under a logarithm.
        lower_bounds: a bound by task for losses that can go below zero; their distance to it is what counts.
        order: ``"simultaneous"``, Algorithm 1, or ``"alternating"``: the challenger steps first, and the model answers
            its new losses; one more forward pass.
        evaluation: ``"sequential"``, one graph at a time, or ``"joint"``, a second module and both graphs at once:
            faster, the same numbers. Inside a wrapper only ``"sequential"`` works. Hooks and attributes that the model
            gets later do not reach the second module.
        perturb: starts the challenger this far away in every coordinate, in seeded directions.
        keep_random_iterate: keeps a uniformly drawn iterate, Algorithm 1's output, for :meth:`random_iterate`.
        seed: seed of ``perturb`` and ``keep_random_iterate``.
        generators: random generators of your own that the closure draws from, of PyTorch, numpy or Python; those of the
            model's modules and the global ones need not be given. All passes see the same numbers.
        process_group: the ranks that share a batch; those of the wrapper, or else all of them, by default.

        regularizer: a term :math:`R(\theta)` of the objective that belongs to no task, as a function of the model (the
            one inside `DistributedDataParallel`) that returns a scalar and draws no random numbers. In a step that is
            skipped it is left out too.

    Attributes:
        outer: the model's optimizer, an ordinary one: schedulers and parameter groups work on it.
        inner: the challenger's optimizer.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from torch.optim import Adam
        >>> from torchsims import SIMS
        >>> model = torch.nn.Linear(4, 2)
        >>> def task_losses(model, batch):
        ...     error = (model(batch) - 1).square().mean(0)
        ...     return {"metres": error[0], "millimetres": 1e6 * error[1]}
        >>> method = SIMS(model, tau=1.0, outer=partial(Adam, lr=1e-3), inner=partial(Adam, lr=5e-3))
        >>> report = method.step(task_losses, torch.randn(8, 4))
        >>> report.weights
        {'metres': 0.5, 'millimetres': 0.5}

    Reference:
        Chen, Xing, Chen, Liu, Chow, Qian and Zhang, SIMS: Scale-Invariant Merit-Function-Based Scalarization for
        Multi-Task Learning, KDD 2026.
    """

    _default_transform: ClassVar[type[Transform]] = Log

    def __init__(
        self,
        model: nn.Module,
        *,
        tau: float = 3.0,
        prox: float = 0.0,
        outer: OptimizerFactory,
        inner: OptimizerFactory,
        transform: Transform | None = None,
        augment: float = 0.0,
        preference: Mapping[str, float] | None = None,
        normalize: Normalizer | None = None,
        lower_bounds: Mapping[str, float] | None = None,
        order: Order = "simultaneous",
        evaluation: Evaluation = "sequential",
        perturb: float = 0.0,
        keep_random_iterate: bool = False,
        seed: int = 0,
        generators: Sequence[Generator] = (),
        process_group: Any = None,
        regularizer: Regularizer | None = None,
    ) -> None:
        self.tau, self.prox, self.augment, self.perturb = tau, prox, augment, perturb
        self.order, self.evaluation, self.seed = order, evaluation, seed
        check_object("transform", transform, Transform, "Log()")
        self.transform = self._default_transform() if transform is None else transform
        check_object("preference", preference, Mapping, '{"depth": 2.0}')
        self._preference = None if preference is None else dict(preference)
        self._check_options()
        super().__init__(
            model,
            normalize=normalize,
            lower_bounds=lower_bounds,
            generators=generators,
            process_group=process_group,
            regularizer=regularizer,
        )
        self._make_copies(outer, inner, keep_random_iterate)
        if preference is not None or self.transform.needs_reference:
            self._first = FirstLosses()

    def _gradients(self, batch: Batch, scaler: GradScaler | None) -> MeritReport:
        theta, challenger = self._theta, self._challenger
        at_theta = Pass(batch, self.model, self._buffers, keep_graph=self.evaluation == "joint" and batch.single)
        with challenger.module() as module:
            rewind = challenger.module_buffers.snapshot() if self.order == "alternating" else None
            at_challenger = Pass(batch, module, challenger.module_buffers, keep_graph=batch.single)
            here, there = self._reduce_losses(at_theta, at_challenger)
            compared = self._compare(here, there)
            # Eq. (grad_1), the gradient of h in theta': sum_i w_i grad psi(L_i(theta')) + lambda (theta' - theta)
            at_challenger.backward(there.per_total(compared.for_challenger))
            challenger.collect_gradients()
            term_there = self._regularize(module, challenger.module_buffers)
        reduce_and_unscale(self.inner, challenger.parameters, self._ranks, scaler, at_challenger.connected)
        if self.prox:
            add_proximal(theta, challenger.parameters, self.prox, target=1)
        if term_there is not None:
            term_there.add_to(challenger.parameters, self._ranks)

        if rewind is not None and self._move_challenger():
            here, there = self._reduce_losses(at_theta, self._pass_after_move(batch, rewind), unit=here.unit)
            compared = self._compare(here, there)

        # Eq. (grad_2), turned into descent on -h: sum_i w_i grad psi(L_i(theta)) - lambda (theta - theta')
        at_theta.backward(here.per_total(compared.for_theta))
        reduce_and_unscale(self.outer, theta, self._ranks, scaler, at_theta.connected)
        if self.prox:
            add_proximal(theta, challenger.parameters, self.prox, target=0)
        term_here = self._regularize(self.model, self._buffers)
        if term_here is not None:
            term_here.add_to(theta, self._ranks)
        terms = (term_here, term_there)
        return self._report(batch, here, there, compared, terms, at_theta.aux, scaled=scaler is not None)

    def _optimizers_of_update(self) -> list[Optimizer]:
        return [self.inner, self.outer] if self.order == "simultaneous" else [self.outer]

    def _update(self) -> None:
        if self.order == "simultaneous":
            self._warn_if_equal()
        super()._update()

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        if self.order == "alternating":
            raise RuntimeError(
                "Parameter `order` should be 'simultaneous' to clip gradients. "
                "Found `order = 'alternating'`, where the challenger has moved when `backward` returns."
            )
        return super().clip_grad_norm_(max_norm, norm_type)

    def _check_options(self) -> None:
        if not 0 < self.tau < float("inf"):
            raise ValueError(f"Parameter `tau` should be positive and finite. Found `tau = {self.tau}`.")
        for name in ("prox", "augment", "perturb"):
            if not 0 <= (value := getattr(self, name)) < float("inf"):
                raise ValueError(f"Parameter `{name}` should not be negative. Found `{name} = {value}`.")
        for task, value in (self._preference or {}).items():
            if not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ValueError(
                    f"Parameter `preference` should be positive and finite. Found {value!r} for task `{task}`."
                )
        for name, known_values in (("order", Order), ("evaluation", Evaluation)):
            if (value := getattr(self, name)) not in get_args(known_values):
                first, second = get_args(known_values)
                raise ValueError(f"Parameter `{name}` should be {first!r} or {second!r}. Found `{name} = {value!r}`.")

    def _compare(self, here: GlobalBatch, there: GlobalBatch) -> Comparison:
        reference = None if self._first is None else self._reference(here)
        chosen = self._preference
        return compare(
            here,
            there,
            tau=self.tau,
            transform=self.transform if reference is None else self.transform.at(reference),
            augment=self.augment,
            preference=None if chosen is None else self._tasks.tensor(chosen, 1.0, here.losses, "preference"),
            reference=reference,
        )

    def _move_challenger(self) -> bool:
        """Let the challenger step before the model does; undone if the step fails. Return whether it moved."""
        if nonfinite_gradients(self._ranks, self.inner):
            return False
        self._transaction.if_unused(restorer(self.inner, self._copies[1]))
        with self._ranks.raise_on_all():
            take_step(self.inner)
        return True

    def _pass_after_move(self, batch: Batch, rewind: Callable[[], None]) -> Pass:
        """Return the pass of the challenger after its step; its buffers have seen this batch already."""
        buffers = self._challenger.module_buffers
        with self._challenger.module() as module:
            restore = buffers.snapshot()
            rewind()
            again = Pass(batch, module, buffers)
            restore()
        return again

    def _report(
        self,
        batch: Batch,
        here: GlobalBatch,
        there: GlobalBatch,
        compared: Comparison,
        terms: Sequence[Term | None],
        aux: Any,
        scaled: bool,
    ) -> MeritReport:
        theirs = self._challenger.parameters
        distance = squared_distance(self._theta, theirs, self._ranks) if self.prox else None
        nonfinite = nonfinite_gradients(self._ranks, *self._optimizers())
        floor = self._first.first if self._first is not None and self.transform.needs_reference else None
        counts, labelled, losses, rivals, w, c, d, distances, (bad,), first, *found = to_host(
            *(here.counted, here.mask, here.losses, there.losses, compared.weights, here.per_loss(compared.for_theta)),
            *(compared.differences, distance, nonfinite, floor, *tensors_of(*terms)),
        )
        labelled = labelled or [True] * len(losses)
        by_name = self._tasks.by_name
        check_counts(self._tasks, counts)
        for values, where in ((losses, "the model"), (rivals, "the challenger")):
            check_losses(self._tasks, values, labelled, self._lower_bounds, self.transform.positive, where, first)
        regularizer = check_terms(found, "the model", "the challenger")
        skipped = None
        if not any(labelled):
            skipped = NO_LABEL
        elif bad and scaled:
            skipped = OVERFLOW
        elif bad and nonfinite_gradients(self._ranks, self.outer):
            raise_nonfinite_gradients(batch, nullcontext(self.model), by_name(losses))
        elif bad:
            raise_nonfinite_gradients(batch, self._challenger.module(), by_name(rivals))
        return MeritReport(
            losses=by_name(nan_if_unlabelled(losses, labelled)),
            challenger=by_name(nan_if_unlabelled(rivals, labelled)),
            weights=by_name(w),
            coefficients=by_name(c),
            merit=smooth_max([*compress(d, labelled)], self.tau, self.augment) + 0.5 * self.prox * sum(distances),
            aux=aux,
            skipped=skipped,
            regularizer=regularizer,
        )
