"""Accuracy of classes, alone and together with the area under the ROC curve."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from torchsims.metrics._auc import AUC, as_scores
from torchsims.metrics._base import TaskMetric


@final
class Accuracy(TaskMetric):
    """The share of the labelled rows whose class is the predicted one.

    Example:
        >>> metric = Accuracy()
        >>> metric.update(torch.tensor([3.0, -1.0, 2.0, 0.0]), torch.tensor([1, 1, 0, -1]))  # logits, labels
        >>> round(metric.compute()["accuracy"].item(), 3)
        0.333
    """

    higher_is_better: Mapping[str, bool] = {"accuracy": True}
    right: Tensor
    count: Tensor

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        if not classes >= 2:
            raise ValueError(f"Parameter `classes` should be at least 2. Found `classes = {classes}`.")
        self.classes = classes
        self._sums("right", "count", dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add logits of class 1, `row` or `row x 1`, or scores, `row x class`, and labels, negative to ignore."""
        scores = as_scores(prediction, target, self.classes)
        found = scores.argmax(1) if self.classes > 2 else scores[:, 0] > 0
        known = target >= 0
        self.right += (found == target)[known].sum()
        self.count += known.sum()

    def compute(self) -> dict[str, Tensor]:
        return {"accuracy": self.right.double() / self.count}


@final
class Classification(TaskMetric):
    """:class:`AUC` and :class:`Accuracy` of one task.

    Example:
        >>> metric = Classification()
        >>> metric.update(torch.tensor([3.0, 1.0, -2.0]), torch.tensor([1, 1, 0]))
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'auc': 1.0, 'accuracy': 1.0}
    """

    higher_is_better: Mapping[str, bool] = {**AUC.higher_is_better, **Accuracy.higher_is_better}

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.auc, self.accuracy = AUC(classes), Accuracy(classes)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add logits of class 1, `row` or `row x 1`, or scores, `row x class`, and labels, negative to ignore."""
        self.auc.update(prediction, target)
        self.accuracy.update(prediction, target)

    def compute(self) -> dict[str, Tensor]:
        return {**self.auc.compute(), **self.accuracy.compute()}

    def reset(self) -> None:
        super().reset()
        self.auc.reset()
        self.accuracy.reset()
