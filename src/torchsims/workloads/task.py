"""What a task is: its outputs, its loss, its metric, and how a picture shows it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from torch import Tensor

from torchsims.metrics import TaskMetric

Display: TypeAlias = Literal["classes", "distances", "directions", "outlines"]
"""How a picture shows a task."""

Loss: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Returns the sum of the loss over the labels, and the number of labels, for a prediction and a target."""


def identity(prediction: Tensor) -> Tensor:
    """Return the prediction."""
    return prediction


@final
@dataclass(frozen=True)
class TaskSpec:
    """One task of a workload.

    Attributes:
        name: name of the task; any text.
        outputs: channels or classes of the prediction.
        loss: returns the sum of the loss over the labels, and their number.
        metric: makes a new metric.
        shown_as: how a picture shows the task; None if there is no picture.
        decode: turns the output of a network into what users see, such as classes or probabilities.

    Example:
        >>> from torchsims.metrics import Depth
        >>> from torchsims.models import depth_loss
        >>> TaskSpec("depth", 1, depth_loss, Depth, shown_as="distances").outputs
        1
    """

    name: str
    outputs: int
    loss: Loss
    metric: Callable[[], TaskMetric]
    shown_as: Display | None = None
    decode: Callable[[Tensor], Tensor] = identity
