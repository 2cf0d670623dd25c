"""The base class of a `LightningModule` with several tasks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import isnan, nan
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torchsims.lightning._optimizer import MethodOptimizer
from torchsims.lightning._wrapping import call_inside, check_strategy, with_reduction, without_reduction
from torchsims.steppers import MeritReport, ObjectiveReport, Report, Stepper

__all__ = ["MultiTaskModule"]


class MultiTaskModule(LightningModule, ABC):
    r"""A `LightningModule` that is trained by a method: write :meth:`task_losses` and :meth:`configure_method`.

    One step of the trainer is one step of the method, on all micro-batches of `accumulate_grad_batches` and on all
    ranks, exactly:

    .. math:: \theta \leftarrow \theta - \eta \sum_i w_i \nabla L_i(\theta),

    - :math:`L_i` the losses of the whole batch, from :meth:`task_losses`;
    - :math:`w_i` the weights of the tasks, from the method of :meth:`configure_method`;
    - :math:`\eta` the rate of its optimizer.

    Optimization stays automatic: `trainer.global_step`, checkpoints, early stopping, schedulers, `gradient_clip_val`
    and precision work as in any module. Do not write `training_step`; write all other hooks as usual.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from lightning.pytorch import Trainer
        >>> from torch.optim import Adam
        >>> from torchsims import SIMS
        >>> from torchsims.lightning import MultiTaskModule
        >>> class Net(MultiTaskModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.net = torch.nn.Linear(4, 2)
        ...     def task_losses(self, batch):
        ...         error = (self.net(batch) - 1).square().mean(0)
        ...         return {"metres": error[0], "millimetres": 1e6 * error[1]}
        ...     def configure_method(self, model):
        ...         return SIMS(model, outer=partial(Adam, lr=1e-3), inner=partial(Adam, lr=5e-3))
        >>> options = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
        >>> trainer = Trainer(accelerator="cpu", max_epochs=1, enable_progress_bar=False, **options)
        >>> trainer.fit(Net(), torch.randn(10, 8, 4))  # ten batches
        >>> trainer.global_step
        10
    """

    _optimizer: MethodOptimizer | None = None

    @abstractmethod
    def task_losses(self, batch: Any) -> Any:
        """Return the losses of all tasks: what a closure of a method returns.

        It is called several times per step, at the model and at the challenger, so it should only compute: no
        `backward`, and no `self.log`. To log more than losses and weights, return a pair of the losses and anything
        else, and find the latter as ``report.aux`` in :meth:`log_report`.
        """

    @abstractmethod
    def configure_method(self, model: nn.Module) -> Stepper[Any]:
        """Return the method that trains the model; called when a fit starts.

        Args:
            model: this module, inside `DistributedDataParallel` if the strategy is `ddp`.
        """

    @property
    def method(self) -> Stepper[Any]:
        """The method, from the start of a fit on; before, there is no such attribute."""
        if self._optimizer is None:
            raise AttributeError  # the sentence is that of `__getattr__`, which is asked next
        return self._optimizer.method

    def log_report(self, report: Report) -> None:
        """Log what happened in a step: ``train/<task>/loss`` and ``train/<task>/weight``, and the objective.

        Two-copy methods add ``train/<task>/challenger`` and ``train/merit``, loss-level ones ``train/objective``. Other
        characters than letters, digits and ``-`` become ``_`` in the names of tasks.
        """
        names = _log_names(report.losses)
        self.log_dict({f"train/{names[task]}/loss": loss for task, loss in report.losses.items()}, prog_bar=True)
        self.log_dict({f"train/{names[task]}/weight": weight for task, weight in report.weights.items()})
        if isinstance(report, MeritReport):
            self.log_dict({f"train/{names[task]}/challenger": loss for task, loss in report.challenger.items()})
            self.log("train/merit", report.merit)
        elif isinstance(report, ObjectiveReport):
            self.log("train/objective", report.objective)

    def configure_optimizers(self) -> Any:
        """Return the optimizers of the method as one.

        For schedulers, override it and return what Lightning knows, around ``super().configure_optimizers()``.
        """
        check_strategy(self.trainer)
        if not self.automatic_optimization:
            raise ValueError(
                "Parameter `automatic_optimization` should be True in a `MultiTaskModule`, where the method takes the "
                "steps. Found `automatic_optimization = False`."
            )
        model = self._strategy_model()
        method = self.configure_method(model)
        if not isinstance(method, Stepper):
            raise TypeError(
                "`configure_method` should return a method such as `SIMS(model, ...)`. "
                f"Found `{type(method).__name__}`."
            )
        if method.model is not model:
            raise ValueError(
                "`configure_method` should make the method of the model that it is given. "
                f"Found one of `{type(method.model).__name__}`."
            )
        self._optimizer = MethodOptimizer(method)
        return self._optimizer

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Compute the gradients of a step if the batch completes a group of micro-batches, else keep it until then.

        Returns:
            The sum of the losses times their weights; NaN if no step is taken yet.
        """
        optimizer = self._method_optimizer()
        optimizer.enter_epoch(self.current_epoch)
        optimizer.micro_batches.append(batch)
        if not optimizer.stepping:
            return torch.tensor(nan, device=self.device)
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        with with_reduction(self._strategy_model()):
            report = self.method.backward(self._closure, *optimizer.take_group(), scaler=scaler)
        self.log_report(report)
        terms = [report.weights[task] * loss for task, loss in report.losses.items() if not isnan(loss)]
        loss = self.trainer.accumulate_grad_batches * sum(terms, start=0.0)  # Lightning divides by their number
        return torch.tensor(loss, device=self.device)

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Take a step of the method: the closure computes the gradients in :meth:`training_step`."""
        with self._method_optimizer().taking_step(), without_reduction(self._strategy_model()):
            optimizer.step(closure=optimizer_closure)

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the gradients are computed in :meth:`training_step`."""

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Optimizer) -> None:
        """Do nothing: the method drops old gradients itself."""

    def clip_gradients(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients, every copy's by its own norm; by value if the trainer says so."""
        limit = self.trainer.gradient_clip_val if gradient_clip_val is None else gradient_clip_val
        if not limit:
            return
        if (gradient_clip_algorithm or self.trainer.gradient_clip_algorithm) != "value":
            self.method.clip_grad_norm_(limit)
            return
        self.method.clip_grad_norm_(float("inf"))  # clips nothing, and raises where nothing can be clipped
        nn.utils.clip_grad_value_([p for group in optimizer.param_groups for p in group["params"]], limit)

    def __getattr__(self, name: str) -> Any:
        if name == "method":
            raise AttributeError("The method should be used during a fit, which makes it. Found none yet.")
        return super().__getattr__(name)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_optimizer": None}  # copies have no trainer, and no method either

    def _closure(self, model: nn.Module, batch: Any) -> Any:
        if isinstance(model, DistributedDataParallel):
            return call_inside(model, self, self.task_losses, batch)
        assert isinstance(model, MultiTaskModule)
        if model is not self:  # the challenger's module of joint evaluation
            model.trainer = self.trainer
        return model.task_losses(batch)

    def _strategy_model(self) -> nn.Module:
        model = self.trainer.strategy.model
        assert model is not None
        return model

    def _method_optimizer(self) -> MethodOptimizer:
        if self._optimizer is None:
            raise RuntimeError(
                "A `configure_optimizers` of your own should return `super().configure_optimizers()`, with schedulers "
                "around it if there are any. Found one that does not call it."
            )
        return self._optimizer


def _log_names(tasks: Iterable[str]) -> dict[str, str]:
    """Return a name for every task that can be part of a file's name; no two are the same."""
    names: dict[str, str] = {}
    for task in tasks:
        name = plain = re.sub(r"[^\w-]", "_", task)
        copies = 1
        while name in names.values():
            copies += 1
            name = f"{plain}_{copies}"
        names[task] = name
    return names
