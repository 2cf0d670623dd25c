"""What a `MultiTaskTrainer` does not do is one sentence, before training starts."""

import os
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import nn

from torchsims.steppers import SIMS, Stepper

__all__ = ["check_arguments", "check_best", "check_factory", "check_method", "warn_unused"]

_UNUSED = {
    "deepspeed": "DeepSpeed keeps the parameters and the optimizer for itself: use `torchrun`",
    "fsdp": "its shards are not those that a method can copy: use `torchrun`, or `fully_shard` in a loop of your own",
    "fp16": "its loss scaling knows one optimizer: use `bf16`",
    "parallelism_config": "a method reduces losses over processes that share nothing but the model: use `torchrun`",
    "auto_find_batch_size": "a run that starts again needs a new method: choose the batch size",
    "label_smoothing_factor": "the losses are those of `task_losses`: smooth the labels there",
}

# The arguments for an optimizer, with the name of the option in parameter groups where all optimizers share it.
_OPTIMIZER = {
    "learning_rate": "lr",
    "weight_decay": "weight_decay",
    "optim": "",
    "optim_args": "",
    "optim_target_modules": "",
    "adam_beta1": "",
    "adam_beta2": "",
    "adam_epsilon": "",
}


def check_factory(make_method: Any) -> None:
    """Raise if this cannot make a method, such as a method that is made already, or an optimizer."""
    made = make_method.func if isinstance(make_method, partial) else make_method
    if isinstance(made, type):
        refused, found = not issubclass(made, Stepper), f"the class `{made.__name__}`"
    else:
        refused = isinstance(made, Stepper | nn.Module) or not callable(made)
        found = f"an instance of `{type(made).__name__}`"
    if refused:
        raise TypeError(
            "Parameter `method` should make a method when it is called with the model, such as "
            f"`partial(SIMS, tau=3.0, outer=..., inner=...)`. Found {found}."
        )


def check_arguments(args: Any) -> None:
    """Raise if the training arguments ask for what a method cannot do."""
    for name, reason in _UNUSED.items():
        if value := getattr(args, name, None):
            raise ValueError(f"Argument `{name}` should be left out: {reason}. Found `{name} = {value!r}`.")
    if args is None:
        return
    if args.n_gpu > 1:
        raise ValueError(
            "Every process should have one device: start the script with `torchrun --nproc-per-node`. "
            f"Found {args.n_gpu} devices in one process."
        )
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if args.world_size != started:  # the Trainer joins the processes of `torchrun` if it knows that there is no device
        raise ValueError(
            "The Trainer should join all processes: set `use_cpu=True` on machines without an accelerator. "
            f"Found {started} processes, of which it has joined {args.world_size}."
        )


def check_method(method: Any, model: nn.Module, max_grad_norm: float) -> None:
    """Raise if what the factory made is not a method of this model, or cannot clip and has to."""
    if not isinstance(method, Stepper):
        raise TypeError(f"Parameter `method` should return a method. Found `{type(method).__name__}`.")
    if method.model is not model:
        raise ValueError(
            "Parameter `method` should make a method of the model it is called with. Found a method of another model."
        )
    if isinstance(method, SIMS) and method.order == "alternating" and max_grad_norm > 0:
        raise ValueError(
            "Argument `max_grad_norm` should be 0 with `order = 'alternating'`, whose challenger moves before the "
            f"gradients of the model are known. Found `max_grad_norm = {max_grad_norm}`."
        )


def check_best(metric: str | None, prefix: str, losses: Mapping[str, float]) -> None:
    """Raise if checkpoints are compared by a geometric mean of which one loss is negative.

    Args:
        metric: ``metric_for_best_model``, which `TrainingArguments` sets to ``"loss"`` if it needs one.
        prefix: that of the metrics of this evaluation, such as ``"eval"``.
        losses: the losses by task.
    """
    name = f"{prefix}_loss"
    if metric and f"eval_{metric.removeprefix('eval_')}" == name and any(loss < 0 for loss in losses.values()):
        raise ValueError(
            f"Argument `metric_for_best_model` should be another metric than `{name}`, such as "
            f"`{prefix}_{next(iter(losses))}_loss`: losses below zero have no geometric mean. Found `{dict(losses)}`."
        )


def warn_unused(args: Any, method: Stepper[Any]) -> None:
    """Warn of every argument for an optimizer that was given and that no optimizer has."""
    groups = [group for optimizer in method.optimizers for group in optimizer.param_groups]
    given = args.to_dict()
    for name, option in _OPTIMIZER.items():
        value = given[name]
        found = sorted({float(group[option]) for group in groups if group.get(option) is not None})
        if value != getattr(type(args), name) and value not in found:
            rest = f", whose `{option}` is {found}" if found else ""
            warnings.warn(
                f"Argument `{name} = {value!r}` is not used: the optimizers are those of the method{rest}.",
                stacklevel=2,
            )
