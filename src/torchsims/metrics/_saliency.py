"""The Jaccard index of salient pixels."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from torchsims.metrics._base import TaskMetric, raise_if_shapes_differ

THRESHOLDS = torch.linspace(0.2, 0.9, 15).tolist()


@final
class Saliency(TaskMetric):
    r"""The mean Jaccard index of the images, at the best of 15 thresholds.

    .. math::
        \text{miou} = \max_t \frac1N \sum_{n=1}^N \frac{|P_n^t \cap S_n|}{|P_n^t \cup S_n|}, \qquad
        t = 0.2, 0.25, \dots, 0.9

    - :math:`S_n` are the salient pixels of image :math:`n`, and :math:`P_n^t` those with a probability above :math:`t`.
      Where both are empty, the image counts 1.

    Example:
        >>> metric = Saliency()
        >>> logits = torch.tensor([4.0, 2.0, -2.0, -4.0]).view(1, 1, 1, 4)
        >>> metric.update(logits, torch.tensor([1.0, 1.0, 1.0, 0.0]).view(1, 1, 1, 4))
        >>> round(metric.compute()["miou"].item(), 3)
        0.667
    """

    higher_is_better: Mapping[str, bool] = {"miou": True}
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._sums("total", size=(len(THRESHOLDS),))
        self._sums("count", dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add logits and labels, `batch x 1 x height x width`: 1 is salient, 0 is not, negative is to ignore."""
        raise_if_shapes_differ(prediction, target)
        thresholds = torch.tensor(THRESHOLDS, device=target.device).view(-1, 1, 1)
        salient, known = (target > 0).flatten(1), (target >= 0).flatten(1)
        called = (prediction.float().sigmoid().flatten(1) > thresholds) & known  # threshold x image x pixel
        common = (called & salient).sum(-1).double()
        union = (called | salient).sum(-1).double()
        self.total += (common / union).where(union > 0, 1.0).sum(-1)
        self.count += len(target)

    def compute(self) -> dict[str, Tensor]:
        return {"miou": self.total.max() / self.count}
