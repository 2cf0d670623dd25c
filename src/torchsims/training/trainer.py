"""Steps of a method with a learning-rate schedule, a history and callbacks; knows neither files nor data sets."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, isnan, nan
from typing import Any, final

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Adam, Optimizer

from torchsims._starvation import StarvationMonitor, StarvationWarning
from torchsims.diagnosis import GradientMonitor, GradientValues
from torchsims.steppers import MeritReport, Report, Stepper
from torchsims.training.callbacks import Callback, StepValues
from torchsims.training.plain import check_alike
from torchsims.training.run import History, Metrics
from torchsims.training.seeding import mix


def warmup_then_decay(step: int, steps: int, warmup: float) -> float:
    """Return the learning rate at a step as a share of its peak: linear warm-up, then linear decay to zero.

    Example:
        >>> [round(warmup_then_decay(step, 10, 0.2), 3) for step in range(10)]
        [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    rise = round(warmup * steps)
    return (step + 1) / rise if step < rise else max(steps - step, 0) / (steps - rise)


def weighted_shares(losses: Mapping[str, float], coefficients: Mapping[str, float]) -> dict[str, float]:
    r"""Return the share of every task in the sum of the losses that a step descends.

    .. math::
        \frac{|c_i L_i|}{\sum_j |c_j L_j|}

    - :math:`L_i` (``losses``): the losses, NaN without a label, which has no share;
    - :math:`c_i` (``coefficients``): their factors in the step, the derivatives of its objective.

    No unit of a loss changes it: that a loss is multiplied divides its factor, for a method that does not depend on
    units. It is NaN for all tasks in a step that weighs none.

    Example:
        >>> weighted_shares({"a": 3.0, "b": 0.5}, {"a": 1.0, "b": 2.0})
        {'a': 0.75, 'b': 0.25}
    """
    parts = {task: 0.0 if isnan(loss) else abs(coefficients[task] * loss) for task, loss in losses.items()}
    total = sum(parts.values())
    return {task: part / total if 0 < total < inf else nan for task, part in parts.items()}


@final
class Trainer:
    """Trains one model with one method, step by step; ``history`` holds the curves so far."""

    def __init__(
        self,
        method: Stepper[Any],
        task_losses: Callable[..., Any],
        *,
        steps: int,  # of the whole training
        warmup: float,  # share of the steps in which the learning rate rises
        constant: bool = False,  # whether the learning rate neither rises nor falls
        clip: float = 0.0,  # largest gradient norm; 0 for no clipping
        seed: int = 0,  # of the random numbers of each step
        rank: int = 0,  # of this process
        scaler: GradScaler | None = None,
        factors: Mapping[str, float] | None = None,  # that `task_losses` has; the history is without them
        names: Sequence[str] | None = None,  # of the tasks, if `task_losses` has numbers instead
        callbacks: Sequence[Callback] = (),
        monitor_every: int = 0,  # steps between two measurements of the gradients; 0 for none
        preferred: bool = False,  # whether tasks have preferences: those that matter less get less weight on purpose
    ) -> None:
        self.method, self.task_losses, self.callbacks = method, task_losses, callbacks
        self._steps, self._clip, self._seed, self._rank, self._scaler = steps, clip, seed, rank, scaler
        self._factors, self._names = dict(factors or {}), names
        self.step_number = 0
        self._monitor_every = monitor_every
        self._monitor = GradientMonitor(method.model, names=names) if monitor_every else None
        self.history = History()
        self._starvation, self._preferred = StarvationMonitor(), preferred
        decay = partial(warmup_then_decay, steps=steps, warmup=warmup)
        self._share: Callable[[int], float] = (lambda step: 1.0) if constant else decay
        self._peaks = [
            [group.setdefault("initial_lr", group["lr"]) for group in optimizer.param_groups]  # named as torch does
            for optimizer in method.optimizers
        ]
        self._set_rates(0)

    @property
    def starved(self) -> tuple[str, ...]:
        """The tasks found starved so far."""
        return tuple(self._starvation.tasks)

    def start(self) -> None:
        """Call ``on_start`` of the callbacks."""
        for callback in self.callbacks:
            callback.on_start(self.step_number, self._steps)

    def step(self, *micro_batches: Any) -> None:
        """Take one step; its random numbers depend on the seed, the number of the step and the rank alone."""
        number = self.step_number
        self._seed_generators(mix(self._seed, number, self._rank))
        gradients = self._measure(number, micro_batches)
        lr = self.method.optimizers[0].param_groups[0]["lr"]
        report = self.method.backward(self.task_losses, *micro_batches, scaler=self._scaler)
        if self._clip:
            self.method.clip_grad_norm_(self._clip)
        self.method.update()
        if self._scaler is not None and self._scaler.is_enabled():
            self._scaler.update()
        self._set_rates(number + 1)
        values = self._values(report, lr, gradients)
        self.history.record(values.losses, values.weights, values.merit, gradients, values.influence)
        self.step_number += 1  # before the callbacks: one that raises finds a state that can be saved
        self._report_starved(report)
        for callback in self.callbacks:
            callback.on_step(number, values)

    def end_epoch(self, validation: Metrics) -> None:
        """Close an epoch."""
        self.method.end_epoch()
        self.history.end_epoch(validation)
        for callback in self.callbacks:
            callback.on_epoch(self.step_number - 1, validation)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the model, for a checkpoint."""
        return {
            "step": self.step_number,
            "method": self.method.state_dict(),
            "scaler": {} if self._scaler is None else self._scaler.state_dict(),
            "history": self.history.to_dict(),
            "starved": self._starvation.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state_dict` returned."""
        check_alike(state, self.state_dict())
        self.step_number = state["step"]
        self.method.load_state_dict(state["method"])
        for optimizer in self.method.optimizers:
            _check_moments(optimizer)
        if self._scaler is not None:
            self._scaler.load_state_dict(state["scaler"])
        self.history = History.from_dict(state["history"])
        self._starvation.load_state_dict(state["starved"])

    def _measure(self, number: int, micro_batches: Sequence[Any]) -> GradientValues | None:
        """Return the gradients of all tasks before a step, if it is time to; the step is the same with and without."""
        if self._monitor is None or number % self._monitor_every:
            return None
        scale = 1.0 if self._scaler is None else self._scaler.get_scale()
        try:
            return self._monitor(self.task_losses, *micro_batches, scale=scale)
        except Exception as error:  # whether the step fails too is for the step to say, on all ranks alike
            for callback in self.callbacks:
                callback.on_warning(f"The gradients before step {number + 1} could not be measured. {error}")
            return None

    def _values(self, report: Report, lr: float, gradients: GradientValues | None) -> StepValues:
        merit = report if isinstance(report, MeritReport) else None
        found = [report.losses, report.weights, merit.coefficients if merit else report.weights]
        if self._names is not None:
            found = [dict(zip(self._names, v.values(), strict=True)) for v in found]
        losses, weights, coefficients = found
        unscaled = {task: loss / self._factors.get(task, 1.0) for task, loss in losses.items()}
        shares = weighted_shares(losses, coefficients)
        value = merit.merit if merit else None
        return StepValues(unscaled, weights, lr, value, gradients, shares, report.regularizer)

    def _report_starved(self, report: Report) -> None:
        if not isinstance(report, MeritReport) or self._preferred:
            return
        values = [report.weights, report.losses, report.challenger]
        if self._names is not None:
            values = [dict(zip(self._names, v.values(), strict=True)) for v in values]
        for task in self._starvation.update(*values):
            sentence = self._starvation.advice(task)
            if self._rank == 0:
                warnings.warn(sentence, StarvationWarning, stacklevel=3)
            for callback in self.callbacks:
                callback.on_warning(sentence)

    def _set_rates(self, step: int) -> None:
        """Set the learning rates of a step; a schedule of torch for each optimizer would take ten times as long."""
        share = self._share(step)
        for optimizer, peaks in zip(self.method.optimizers, self._peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * share

    def _seed_generators(self, seed: int) -> None:
        if torch.accelerator.is_available():
            torch.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)  # `torch.manual_seed` keeps a list for devices that never come


def _check_moments(optimizer: Optimizer) -> None:
    """Raise an error unless the moments of Adam, which looks at them only when it steps, fit the parameters."""
    for parameter, entry in optimizer.state.items():
        shapes = {"step": (), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
        if isinstance(optimizer, Adam) and {name: getattr(v, "shape", None) for name, v in entry.items()} != shapes:
            raise ValueError(f"The moments of Adam should have the shape {tuple(parameter.shape)}. Found others.")
