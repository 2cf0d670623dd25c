"""Errors of depth."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from torchsims.metrics._base import TaskMetric, raise_if_shapes_differ


@final
class Depth(TaskMetric):
    r"""Absolute and relative error of the depth, over all pixels whose depth is known.

    .. math::
        \text{abs\_err} = \frac1N \sum_p |\hat d_p - d_p|, \qquad
        \text{rel\_err} = \frac1N \sum_p \frac{|\hat d_p - d_p|}{d_p}

    - :math:`d_p` is the depth of pixel :math:`p`, :math:`\hat d_p` the predicted one, :math:`N` the number of pixels
      with :math:`d_p > 0`.

    Example:
        >>> metric = Depth()
        >>> metric.update(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([2.0, 2.0, 0.0]))  # 0 is not known
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'abs_err': 1.0, 'rel_err': 0.5}
    """

    higher_is_better: Mapping[str, bool] = {"abs_err": False, "rel_err": False}
    absolute: Tensor
    relative: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._sums("absolute", "relative")
        self._sums("count", dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add predicted and true depths of any one shape; a true depth of 0 is not known."""
        raise_if_shapes_differ(prediction, target)
        valid = target > 0
        depth = target[valid].double()
        error = (prediction[valid].double() - depth).abs()
        self.absolute += error.sum()
        self.relative += (error / depth).sum()
        self.count += valid.sum()

    def compute(self) -> dict[str, Tensor]:
        return {"abs_err": self.absolute / self.count, "rel_err": self.relative / self.count}
