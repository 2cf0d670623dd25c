"""Tells a method where epochs end, also when a run was stopped between the last step of one and its end."""

from typing import Any, final

from transformers import TrainerCallback

from torchsims.huggingface._optimizer import MethodOptimizer

__all__ = ["EpochEnds"]


@final
class EpochEnds(TrainerCallback):  # type: ignore[misc]  # its types are not read
    """Closes an epoch of the method where the `Trainer` has completed one."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        optimizer = _adapter(objects["optimizer"])
        if state.global_step == 0:
            optimizer.epochs = 0
        elif optimizer.steps == 0:
            raise ValueError(
                "The checkpoint should hold the state of the method, in `optimizer.pt`. "
                "Found none: was it written with `save_only_model`?"
            )
        elif int(state.epoch) > optimizer.epochs:  # saved after the last step of an epoch and before its end
            optimizer.end_epoch()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        complete = float(state.epoch).is_integer() or not control.should_training_stop
        if complete and state.global_step:
            _adapter(objects["optimizer"]).end_epoch()


def _adapter(optimizer: Any) -> MethodOptimizer:
    """Return the method's optimizer from inside Accelerate's."""
    adapter = optimizer.optimizer
    assert isinstance(adapter, MethodOptimizer)
    return adapter
