"""The F-measure of edges."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from torchsims.metrics._base import TaskMetric, raise_if_shapes_differ

THRESHOLDS = 99  # 0.01, 0.02, ..., 0.99, as the benchmarks of edges use them


@final
class Edges(TaskMetric):
    r"""The F-measure at the best threshold for the whole data set (ODS), from counts pooled over all pixels.

    .. math::
        \text{ods\_f} = \max_t \frac{2 \, TP_t}{2 \, TP_t + FP_t + FN_t}, \qquad t = 0.01, 0.02, \dots, 0.99

    - :math:`TP_t, FP_t, FN_t` count the true positives, false positives and false negatives when a probability
      of :math:`t` or more is an edge.

    Without any edge the measure is NaN. Pixels are compared one by one. The benchmark of BSDS lets an edge be off by
    0.75 % of the diagonal, which is less than a pixel for images up to 94 x 94; for larger ones this measure is the
    stricter one.

    Example:
        >>> metric = Edges()
        >>> metric.update(torch.tensor([4.0, 2.0, -2.0, -4.0]), torch.tensor([1.0, 0.0, 1.0, 0.0]))  # logits, labels
        >>> round(metric.compute()["ods_f"].item(), 3)  # the first three are called edges
        0.8
    """

    higher_is_better: Mapping[str, bool] = {"ods_f": True}
    positive: Tensor
    negative: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._sums("positive", "negative", size=(THRESHOLDS + 1,), dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add logits and labels of any one shape: 1 is an edge, 0 is none, negative is to ignore."""
        raise_if_shapes_differ(prediction, target)
        thresholds = torch.arange(1, THRESHOLDS + 1, device=target.device) / (THRESHOLDS + 1)
        passed = torch.bucketize(prediction.float().sigmoid(), thresholds, right=True)  # how many thresholds
        self.positive += torch.bincount(passed[target > 0], minlength=THRESHOLDS + 1)
        self.negative += torch.bincount(passed[target == 0], minlength=THRESHOLDS + 1)

    def compute(self) -> dict[str, Tensor]:
        # A pixel that passed t thresholds or more is called an edge at threshold t.
        true, false = (counts.flip(0).cumsum(0).flip(0)[1:].double() for counts in (self.positive, self.negative))
        missed = self.positive.sum() - true
        best = (2 * true / (2 * true + false + missed)).max()  # the denominator is positive where there are edges
        return {"ods_f": best.where(self.positive.sum() > 0, torch.nan)}
