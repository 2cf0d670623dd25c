"""R2 and mean absolute error."""

from collections.abc import Mapping
from math import isfinite
from typing import final

import torch
from torch import Tensor

from torchsims.metrics._base import TaskMetric

ROUNDING = 2.0**-52  # of a sum in double precision, per term: a smaller spread counts as zero


@final
class Regression(TaskMetric):
    r"""The coefficient of determination and the mean absolute error, over all rows whose number is known.

    .. math::
        \text{r2} = 1 - \frac{\sum_r (y_r - \hat y_r)^2}{\sum_r (y_r - \bar y)^2}, \qquad
        \text{mae} = \frac{\text{sd}}{N} \sum_r |y_r - \hat y_r|

    - :math:`y_r` is the number of row :math:`r`, :math:`\hat y_r` the predicted one, :math:`\bar y` the mean of all;
    - :math:`\text{sd}` (``sd``): native units per unit of ``prediction`` and ``target``.

    Where all numbers are equal, r2 is NaN. The spread comes from sums in double precision, which lose
    digits where the mean is millions of times larger than the spread; numbers in standard units never are.

    Example:
        >>> metric = Regression(sd=10)
        >>> metric.update(torch.tensor([1.0, 3.0, 0.0]), torch.tensor([1.0, 2.0, torch.nan]))  # the last is missing
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'r2': -1.0, 'mae': 5.0}
    """

    higher_is_better: Mapping[str, bool] = {"r2": True, "mae": False}
    squared: Tensor
    absolute: Tensor
    first: Tensor
    second: Tensor
    count: Tensor

    def __init__(self, sd: float = 1.0) -> None:
        super().__init__()
        if not (isfinite(sd) and sd > 0):
            raise ValueError(f"Parameter `sd` should be positive. Found `sd = {sd}`.")
        self.sd = sd
        self._sums("squared", "absolute", "first", "second")
        self._sums("count", dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add predicted numbers, `row` or `row x 1`, and numbers, `row`, NaN where missing."""
        if target.ndim != 1 or prediction.shape not in (target.shape, (len(target), 1)):
            raise ValueError(
                "Parameters `prediction` and `target` should have the same number of rows. "
                f"Found shapes {tuple(prediction.shape)} and {tuple(target.shape)}."
            )
        known = ~target.isnan()
        y = target[known].double()
        error = prediction.reshape(target.shape)[known].double() - y
        self.squared += error.square().sum()
        self.absolute += error.abs().sum()
        self.first += y.sum()
        self.second += y.square().sum()
        self.count += known.sum()

    def compute(self) -> dict[str, Tensor]:
        spread = self.second - self.first.square() / self.count
        r2 = (1 - self.squared / spread).where(spread > ROUNDING * self.count * self.second, torch.nan)
        return {"r2": r2, "mae": self.sd * self.absolute / self.count}
