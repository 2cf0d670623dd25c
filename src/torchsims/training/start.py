"""Models and methods that start from a finished run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from torchsims.models import SingleTask
from torchsims.registry import Spec
from torchsims.training.checkpoints import CHECKPOINT, read_checkpoint
from torchsims.training.config import RunConfig
from torchsims.training.predict import load_model

__all__ = ["load_start", "read_start"]

SAME = ("data", "tasks", "model", "rescale", "dtype")
"""Settings in which a run is like the one that it starts from."""


@runtime_checkable
class _StartsFromSingleTask(Protocol):
    """A model that can start from a run with one network per task.

    Attributes:
        start: folder of the run; empty for none.
    """

    start: str

    def load_single_task(self, state: Mapping[str, Tensor], tasks: tuple[str, ...]) -> None:
        """Load the state of a :class:`torchsims.models.SingleTask` with these tasks."""


def load_start(model: nn.Module) -> None:
    """Load the weights of the run that a model names as its ``start``, if it names one.

    Example:
        >>> from torchsims.models import CrossStitch
        >>> load_start(CrossStitch({"depth": 1}, width=8, start="no such folder"))
        Traceback (most recent call last):
        ValueError: There is no run with a checkpoint in `no such folder`.
    """
    if not (isinstance(model, _StartsFromSingleTask) and model.start):
        return
    workload, found = load_model(model.start)
    if not isinstance(found, SingleTask):
        raise ValueError(  # noqa: TRY004  # bad input
            f"The run `{model.start}` should have one network per task, `--model stl`. Found a {type(found).__name__}."
        )
    model.load_single_task(found.state_dict(), workload.tasks)


def read_start(config: RunConfig) -> dict[str, Any] | None:
    """Return the state of the run that a configuration starts from, or None; raise an error if it does not fit.

    Example:
        >>> read_start(RunConfig(start="no such folder"))
        Traceback (most recent call last):
        ValueError: There is no run with a checkpoint in `no such folder`.
    """
    if not config.start:
        return None
    path = Path(config.start) / CHECKPOINT
    if not path.is_file():
        raise ValueError(f"There is no run with a checkpoint in `{config.start}`.")
    state = read_checkpoint(path)
    before = RunConfig.from_dict(state["config"])
    pairs = {name: (getattr(before, name), getattr(config, name)) for name in SAME}
    pairs["method"] = (Spec.parse(before.method).name, Spec.parse(config.method).name)
    for name, (there, here) in pairs.items():
        if there != here:
            raise ValueError(f"The run to start from has `{name} = {there}`. Found `{name} = {here}`.")
    if not before.patience and state.get("epoch") != before.epochs:
        raise ValueError(f"The run to start from should be finished. Found epoch {state.get('epoch')} in `{path}`.")
    return state
