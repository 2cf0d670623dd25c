"""Mean intersection over union, and pixel accuracy."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor
from torchmetrics.functional.classification import multiclass_confusion_matrix

from torchsims.metrics._base import TaskMetric


@final
class Segmentation(TaskMetric):
    r"""Mean intersection over union and pixel accuracy, from one confusion matrix over all pixels.

    .. math::
        \text{miou} = \frac1{|C|} \sum_{c \in C} \frac{N_{cc}}{\sum_j N_{cj} + \sum_j N_{jc} - N_{cc}}, \qquad
        \text{pixel\_accuracy} = \frac{\sum_c N_{cc}}{\sum_{cj} N_{cj}}

    - :math:`N_{cj}` counts the pixels of class :math:`c` that were taken for class :math:`j`.
    - :math:`C` are the classes that occur in the labels or in the predictions.

    Example:
        >>> metric = Segmentation(classes=3)
        >>> scores = torch.eye(3)[torch.tensor([[[0, 1, 1, 2]]])].movedim(-1, 1)  # 1 x 3 x 1 x 4
        >>> metric.update(scores, torch.tensor([[[0, 1, 0, -1]]]))  # the last pixel has no label
        >>> {name: round(value.item(), 3) for name, value in metric.compute().items()}
        {'miou': 0.5, 'pixel_accuracy': 0.667}
    """

    higher_is_better: Mapping[str, bool] = {"miou": True, "pixel_accuracy": True}
    confusion: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        if not classes >= 2:
            raise ValueError(f"Parameter `classes` should be at least 2. Found `classes = {classes}`.")
        self.classes = classes
        self._sums("confusion", size=(classes, classes), dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add scores, `batch x class x height x width`, and labels, `batch x height x width`, negative to ignore."""
        self.confusion += multiclass_confusion_matrix(
            prediction.argmax(dim=1), target.clamp(min=-1), self.classes, ignore_index=-1
        )

    def compute(self) -> dict[str, Tensor]:
        counts = self.confusion.double()
        right = counts.diagonal()
        union = counts.sum(0) + counts.sum(1) - right
        return {"miou": (right / union)[union > 0].mean(), "pixel_accuracy": right.sum() / counts.sum()}
