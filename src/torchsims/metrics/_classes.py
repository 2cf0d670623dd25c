"""Metrics of classes: the exact area under the ROC curve, accuracy, and both together."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

from torchsims.metrics._base import TaskMetric


@final
class AUC(TaskMetric):
    r"""The area under the ROC curve: how often a positive row gets a higher score than a negative one.

    .. math::
        \text{auc} = \frac1{P N} \sum_{p, n} [s_p > s_n] + \tfrac12 [s_p = s_n]

    - :math:`s_p, s_n` are the scores of the :math:`P` positive and the :math:`N` negative rows.

    With more than two classes it is the mean over the classes that occur, each against the rest. It is NaN with
    one class only, and where a score is NaN.

    The state is all scores and labels, 4 bytes per score and 1 per label, because no summary of fixed size gives the
    exact value. The area is computed from integers: the order of rows, batches and ranks changes nothing.

    Example:
        >>> metric = AUC()
        >>> metric.update(torch.tensor([3.0, 1.0, 2.0, 0.0]), torch.tensor([1, 1, 0, -1]))  # the last has no label
        >>> metric.compute()["auc"].item()
        0.5
    """

    higher_is_better: Mapping[str, bool] = {"auc": True}
    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        if not classes >= 2:
            raise ValueError(f"Parameter `classes` should be at least 2. Found `classes = {classes}`.")
        self.classes = classes
        self.add_state("scores", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add scores, `row`, `row x 1` or `row x class`, and labels, `row`, negative to ignore."""
        scores = as_scores(prediction, target, self.classes)
        known = target >= 0
        self.scores.append(scores[known].detach())
        self.labels.append(target[known].to(torch.uint8 if self.classes < 256 else torch.int64))

    def compute(self) -> dict[str, Tensor]:
        if not len(self.scores):  # a list before ranks are joined, one tensor after
            return {"auc": torch.tensor(torch.nan, dtype=torch.float64, device=self.device)}
        scores, labels = dim_zero_cat(self.scores), dim_zero_cat(self.labels)
        if self.classes == 2:
            return {"auc": area(scores[:, 0], labels > 0)}
        areas = torch.stack([area(scores[:, k], labels == k) for k in range(self.classes)])
        found = torch.bincount(labels.long(), minlength=self.classes) > 0
        return {"auc": areas[found].mean()}


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


def area(scores: Tensor, positive: Tensor) -> Tensor:
    """Return the area from ranks: every score counts the negatives below it, and half of those that equal it."""
    _, place = torch.unique(scores, return_inverse=True)
    sizes = int(place.max()) + 1 if len(place) else 0
    here, other = (torch.bincount(place[mask], minlength=sizes) for mask in (positive, ~positive))
    below = other.cumsum(0) - other
    pairs = here.sum() * other.sum()
    found = (here * (2 * below + other)).sum().double() / (2 * pairs)
    return found.where((pairs > 0) & ~scores.isnan().any(), torch.nan)


def as_scores(prediction: Tensor, target: Tensor, classes: int) -> Tensor:
    """Return scores, `row x 1` or `row x class`, or raise an error if they do not fit the labels."""
    scores = prediction[:, None] if prediction.ndim == 1 else prediction
    wanted = (len(target), 1 if classes == 2 else classes)
    if target.ndim != 1 or scores.shape != wanted:
        raise ValueError(
            f"Parameter `prediction` should have shape {wanted}, one row per label. "
            f"Found {tuple(prediction.shape)} and labels of shape {tuple(target.shape)}."
        )
    return scores
