"""What the strategy of a trainer wraps around a module, and how losses are computed inside of it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from torch import nn
from torch.nn.parallel import DistributedDataParallel

__all__ = ["call_inside", "check_strategy", "with_reduction", "without_reduction"]


def check_strategy(trainer: Trainer) -> None:
    """Raise if the strategy takes steps of its own, or cannot save the state of a method."""
    if not isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy | ModelParallelStrategy):
        raise TypeError(
            "The strategy should be that of one device, `ddp`, or `ModelParallelStrategy` with `fully_shard`. "
            f"Found `{type(trainer.strategy).__name__}`."
        )
    full = [each for each in trainer.checkpoint_callbacks if not getattr(each, "save_weights_only", True)]
    if isinstance(trainer.strategy, ModelParallelStrategy) and full:
        raise ValueError(
            "Checkpoints of a sharded model should be saved with `save_weights_only=True`: Lightning has no place for "
            f"the shards of the challenger. Found `{type(full[0]).__name__}(save_weights_only=False)`."
        )


def call_inside(wrapper: nn.Module, module: nn.Module, function: Callable[[Any], Any], batch: Any) -> Any:
    """Call a function of a module inside the forward pass of its wrapper, which reduces the gradients."""
    forward = module.forward

    def call_function(batch: Any) -> Any:
        module.forward = forward  # the function may call it
        return function(batch)

    module.forward = call_function
    try:
        return wrapper(batch)
    finally:
        module.forward = forward


def without_reduction(model: nn.Module) -> AbstractContextManager[Any]:
    """Let the wrapper prepare no reduction in forward passes whose outputs are not what is differentiated."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


@contextmanager
def with_reduction(model: nn.Module) -> Iterator[None]:
    """Let the wrapper reduce gradients again, inside of :func:`without_reduction`."""
    if not isinstance(model, DistributedDataParallel):
        yield
        return
    before, model.require_backward_grad_sync = model.require_backward_grad_sync, True
    try:
        yield
    finally:
        model.require_backward_grad_sync = before
