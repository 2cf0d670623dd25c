"""Angles between surface normals."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from torchsims.metrics._base import TaskMetric, raise_if_shapes_differ

BIN = 1e-3  # degrees; the median is exact to half of it, and the state is 1.4 MB whatever the size of the data set
BINS = round(180 / BIN)
WITHIN = (11.25, 22.5, 30.0)
SHARES = [f"within_{limit:g}" for limit in WITHIN]


@final
class Normals(TaskMetric):
    r"""Angles between predicted and true surface normals in degrees, over all pixels whose normal is known.

    .. math::
        \alpha_p = \operatorname{atan2}(|n_p \times \hat n_p|, \langle n_p, \hat n_p \rangle)

    - ``mean`` and ``median`` of all :math:`\alpha_p`, and the shares ``within_11.25``, ``within_22.5``, ``within_30``
      of the :math:`\alpha_p` below that many degrees.
    - :math:`n_p` is the true normal, :math:`\hat n_p` the predicted one, of any length; one of length zero is 90
      degrees off. The arc cosine would lose half of the digits of small angles.

    A median of medians is not the median, and all angles of a data set do not fit into memory on each rank. So the
    state holds a histogram with bins of 0.001 degrees: the median of any number of pixels, batches and ranks is right
    to 0.0005 degrees, and the same for every split. The paper prints 0.01.

    Example:
        >>> metric = Normals()
        >>> up = torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1).expand(1, 3, 1, 4)
        >>> angle = torch.tensor([0.0, 10.0, 20.0, 90.0]).deg2rad().view(1, 1, 1, 4)
        >>> metric.update(torch.cat([angle.sin(), 0 * angle, angle.cos()], dim=1), up)
        >>> {name: round(value.item(), 3) for name, value in metric.compute().items()}
        {'mean': 30.0, 'median': 15.0, 'within_11.25': 0.5, 'within_22.5': 0.75, 'within_30': 0.75}
    """

    higher_is_better: Mapping[str, bool] = {"mean": False, "median": False, **dict.fromkeys(SHARES, True)}
    total: Tensor
    within: Tensor
    histogram: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._sums("total")
        self._sums("within", size=(len(WITHIN),), dtype=torch.int64)
        self._sums("histogram", size=(BINS,), dtype=torch.int64)

    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add normals, `batch x 3 x height x width`; a true normal of zero is not known."""
        raise_if_shapes_differ(prediction, target)
        valid = (target != 0).any(dim=1)
        angle = _angles(prediction.movedim(1, -1)[valid].double(), target.movedim(1, -1)[valid].double())
        self.total += angle.sum()
        self.within += torch.stack([(angle < limit).sum() for limit in WITHIN])
        # A prediction that is NaN makes the mean NaN, and counts as 180 degrees for the median.
        place = (angle.nan_to_num(nan=180.0) / BIN).long().clamp(max=BINS - 1)
        self.histogram += torch.bincount(place, minlength=BINS)

    def compute(self) -> dict[str, Tensor]:
        count = self.histogram.sum()
        shares = (self.within / count).unbind()
        return {"mean": self.total / count, "median": self._median(count), **dict(zip(SHARES, shares, strict=True))}

    def _median(self, count: Tensor) -> Tensor:
        """Return the mean of the one or two middle angles, each taken to be in the middle of its bin."""
        middle = torch.stack([(count + 1) // 2, count // 2 + 1])  # counted from 1
        places = torch.searchsorted(self.histogram.cumsum(0), middle)
        median = (places.double() + 0.5).mean() * BIN
        return median.where(count > 0, torch.nan)


def _angles(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle in degrees between vectors, `n x 3`; 90 if one has no length."""
    angle = torch.atan2(torch.linalg.cross(a, b).norm(dim=-1), (a * b).sum(dim=-1)).rad2deg()
    return angle.where((a != 0).any(dim=-1), 90.0)
