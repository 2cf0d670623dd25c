"""What a `MultiTaskTrainer` does not do is one sentence, before training starts."""

import os
import warnings
from typing import Any

from torch import nn

from torchsims.steppers import SIMS, Stepper

__all__ = ["check_arguments", "check_factory", "check_method", "warn_unused_rate"]

_UNUSED = {
    "deepspeed": "DeepSpeed keeps the parameters and the optimizer for itself: use `torchrun`",
    "fsdp": "its shards are not those that a method can copy: use `torchrun`, or `fully_shard` in a loop of your own",
    "fp16": "its loss scaling knows one optimizer: use `bf16`",
    "parallelism_config": "a method reduces losses over processes that share nothing but the model: use `torchrun`",
    "auto_find_batch_size": "a run that starts again needs a new method: choose the batch size",
    "label_smoothing_factor": "the losses are those of `task_losses`: smooth the labels there",
}


def check_factory(make_method: Any) -> None:
    """Raise if this cannot make a method, such as a method that is made already."""
    if isinstance(make_method, Stepper) or not callable(make_method):
        raise TypeError(
            "Parameter `method` should make a method when it is called with the model, such as "
            f"`partial(SIMS, tau=3.0, outer=..., inner=...)`. Found an instance of `{type(make_method).__name__}`."
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
            "Every process should have one device: start the script with `torchrun --nproc_per_node`. "
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


def warn_unused_rate(args: Any, method: Stepper[Any]) -> None:
    """Warn if a learning rate was given and no optimizer has it."""
    rate = args.learning_rate
    rates = {float(group["lr"]) for optimizer in method.optimizers for group in optimizer.param_groups}
    if rate != type(args).learning_rate and rate not in rates:
        warnings.warn(
            f"Argument `learning_rate = {rate}` is not used: the rates are those of the optimizers of the method, "
            f"{sorted(rates)}.",
            stacklevel=2,
        )
