"""The trainer: the `Trainer` of Hugging Face, whose optimizer step is one exact step of a method."""

from collections.abc import Callable, Mapping
from copy import copy
from math import isnan, nan
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import TrainingArguments

from torchsims.huggingface._checks import check_arguments, check_best, check_factory, check_method, warn_unused
from torchsims.huggingface._epochs import EpochEnds
from torchsims.huggingface._means import EvaluatedLosses, StepMeans, geometric_mean
from torchsims.huggingface._optimizer import MethodOptimizer
from torchsims.huggingface._private import TrainerWithHooks
from torchsims.losses import read
from torchsims.steppers import Stepper

__all__ = ["MethodFactory", "MultiTaskTrainer"]

MethodFactory: TypeAlias = Callable[[nn.Module], Stepper[Any]]
"""What makes a method of a model, such as ``partial(SIMS, tau=3.0, outer=..., inner=...)``."""


class MultiTaskTrainer(TrainerWithHooks):
    r"""The `Trainer` of Hugging Face for several losses, balanced by any method.

    One optimizer step of the trainer is one exact step of the method on the losses of the whole batch,

    .. math::
        L_i = \frac{\sum \text{total}_i}{\sum \text{count}_i} \quad \text{over all micro-batches and processes.}

    ``loss`` and ``eval_loss`` are the geometric mean of the task losses, which other units multiply by a constant: the
    best checkpoint does not depend on units. It is NaN where a loss is negative. ``<task>_loss`` and ``<task>_weight``
    are logged beside it, and ``eval_<task>_loss`` by evaluations. The checkpoint's ``optimizer.pt`` holds all of the
    method.

    Args:
        model: the model, as for `Trainer`.
        args: the training arguments. Rates, weight decay and the like are those of the method's optimizers; the
            schedule of the arguments multiplies all of them.
        method: makes the method from the model, once training starts.
        task_losses: the closure; called as ``task_losses(model, inputs)``, it returns the losses by task, or
            `TaskLosses` where batches hold unequal numbers of labels.
        **options: all other arguments of `Trainer`, except ``optimizers`` and ``compute_loss_func``.

    Attributes:
        method: the method, once training has started.

    Example:
        >>> from functools import partial
        >>> from tempfile import TemporaryDirectory
        >>> from torch.optim import SGD
        >>> from transformers import TrainingArguments
        >>> from torchsims import SIMS
        >>> rows = [{"x": torch.tensor([float(i)]), "y": torch.tensor([2.0 * i, 7.0])} for i in range(8)]
        >>> def task_losses(model, inputs):
        ...     errors = (model(inputs["x"]) - inputs["y"]).square().mean(0)
        ...     return {"slope": errors[0], "level": errors[1]}
        >>> method = partial(SIMS, tau=3.0, outer=partial(SGD, lr=0.01), inner=partial(SGD, lr=0.05))
        >>> with TemporaryDirectory() as folder:
        ...     args = TrainingArguments(
        ...         folder, max_steps=3, label_names=["x", "y"], use_cpu=True, report_to=[], disable_tqdm=True,
        ...         logging_strategy="no", save_strategy="no",
        ...     )
        ...     trainer = MultiTaskTrainer(
        ...         torch.nn.Linear(1, 2), args, train_dataset=rows, method=method, task_losses=task_losses
        ...     )
        ...     trainer.train().global_step
        {'train_runtime': ...}
        3
    """

    optimizer: Any

    def __init__(
        self,
        model: nn.Module | None = None,
        args: TrainingArguments | None = None,
        *,
        method: MethodFactory,
        task_losses: Callable[..., Any],
        **options: Any,
    ) -> None:
        check_factory(method)
        check_arguments(args)
        super().__init__(model, args, **options)
        self._check_options()
        self._make_method = method
        self._method: Stepper[Any] | None = None
        self.task_losses = task_losses
        self.can_return_loss = True  # evaluations have losses, whatever the arguments of the model's `forward` are
        self._waiting: list[Any] = []  # micro-batches of a step that has not been taken
        self._means = StepMeans()
        self._evaluated = EvaluatedLosses()
        self.add_callback(EpochEnds())

    @property
    def method(self) -> Stepper[Any]:
        """The method, once training has started."""
        if self._method is None:
            raise RuntimeError("The method should be used after `train` has been called, which makes it.")
        return self._method

    def create_optimizer(self, model: nn.Module | None = None) -> Any:
        """Make the method of the model, in its wrapper if there are several processes, and return its optimizers."""
        if self.optimizer is None:
            model = self.accelerator.prepare(self.model)
            method = self._make_method(model)
            check_method(method, model, self.args.max_grad_norm)
            warn_unused(self.args, method)
            self.model_wrapped, self._method, self._waiting = model, method, []
            self.optimizer = MethodOptimizer(method)
        return self.optimizer

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Keep a micro-batch, or compute the gradients of the step whose last one it is.

        Args:
            model: the model in its wrapper.
            inputs: the micro-batch.
            num_items_in_batch: not used: `TaskLosses` has a count for each task.

        Returns:
            The geometric mean of the task losses of the step; zero before its last micro-batch.
        """
        self._waiting.append(self.on_device(inputs))
        loss = 0.0
        if self.accelerator.sync_gradients:
            micro_batches, self._waiting = self._waiting, []
            model.train()
            self.optimizer.train()
            report = self.method.backward(self._closure, *micro_batches)
            loss = self._means.add(report)
        return torch.tensor(loss, device=self.args.device)

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Clip the gradients, every copy's by its own norm; return that of the model's before."""
        return self.method.clip_grad_norm_(max_norm)

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the geometric mean of the task losses of a batch, for evaluations.

        Args:
            model: the model.
            inputs: the batch.
            return_outputs: whether to return also what the model returned to the closure in its last call.
            num_items_in_batch: not used.
        """
        outputs: list[Any] = []
        hook = model.register_forward_hook(lambda module, inputs, output: outputs.append(output))
        try:
            reading = read(self._closure(model, inputs))
        finally:
            hook.remove()
        self._evaluated.add(reading, self.batch_size(inputs))
        loss = geometric_mean((reading.total / reading.count).tolist())
        mean = torch.tensor(loss, device=reading.total.device)
        return (mean, self._predictions(mean, outputs)) if return_outputs else mean

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **options: Any) -> Any:
        """Run the loop of `Trainer`, and add the loss of every task; arguments and result as there."""
        self._evaluated = EvaluatedLosses()
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **options)
        losses = self._evaluated.losses(lambda sums: self.accelerator.reduce(sums, reduction="sum"))
        if losses:
            output.metrics[f"{metric_key_prefix}_loss"] = geometric_mean(losses.values())
            if self.is_in_train:
                check_best(self.args.metric_for_best_model, metric_key_prefix, losses)
        output.metrics.update({f"{metric_key_prefix}_{task}_loss": loss for task, loss in losses.items()})
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, and add the means by task to what is logged of the training."""
        if "loss" in logs:
            logs.update(self._means.take())
        elif "train_loss" in logs:  # the end: over all entries, and the steps since the last
            entries = [*self.state.log_history, self._means.take()]
            if any(isnan(entry.get("loss", 0.0)) for entry in entries):
                logs["train_loss"] = nan
        super().log(logs, start_time)

    def _closure(self, model: nn.Module, inputs: Any) -> Any:
        """Call the closure with a copy of the inputs: a step calls it more than once, and it may pop labels."""
        try:
            return self.task_losses(model, copy(inputs))
        except KeyError as error:
            if self.args.remove_unused_columns:
                error.add_note(
                    "The Trainer removes the columns that the `forward` of the model does not take: "
                    "name the labels in `TrainingArguments(label_names=[...])`."
                )
            raise

    def _predictions(self, loss: Tensor, outputs: list[Any]) -> Any:
        """Return the outputs of the model in the form that `Trainer` expects: a mapping, or a tuple after a loss."""
        if not outputs and self.compute_metrics is not None:
            raise ValueError("The closure should call the model it is given: `compute_metrics` needs its outputs.")
        last = outputs[-1] if outputs else ()
        if isinstance(last, Mapping):
            return last
        return (loss, *last) if isinstance(last, tuple | list) else (loss, last)

    def _check_options(self) -> None:
        """Raise if an option was given that the method replaces."""
        check_arguments(self.args)  # the defaults too
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise ValueError("The launcher should leave out DeepSpeed and FSDP: start the script with `torchrun`.")
        if self.optimizer is not None or self.lr_scheduler is not None or self.optimizer_cls_and_kwargs is not None:
            raise ValueError(
                "Parameters `optimizers` and `optimizer_cls_and_kwargs` should be left out: the optimizers are those "
                "of the method, and the schedule is `lr_scheduler_type`."
            )
        if self.compute_loss_func is not None:
            raise ValueError("Parameter `compute_loss_func` should be left out: the losses are those of `task_losses`.")
