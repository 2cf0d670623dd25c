"""Models that start from a finished run."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from torchsims.models import SingleTask
from torchsims.training.predict import load_model

__all__ = ["load_start"]


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
