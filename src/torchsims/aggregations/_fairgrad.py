"""FairGrad: alpha-fair progress of the tasks."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._fair_weights import fair_weights
from torchsims.spaces import Range, Space


@final
class FairGrad(WeightedAggregation):
    r"""Weights of alpha-fair progress (Ban and Ji, ICML 2024).

    .. math::
        d = \sum_i w_i g_i, \qquad G w = w^{-1/\alpha}, \qquad G_{ij} = g_i^\top g_j

    - :math:`\alpha` (``alpha``): the fairness, from 0.1 to 10, or 0, which is the mean; 1 is proportional fairness (the
      equation of Nash-MTL), large values look at the worst task.
    - :math:`w`: the solution, by Newton's method on the host. The authors' script and TorchJD look for it by least
      squares from equal weights, and stop early where gradients differ much in length.

    A gradient of zero has weight zero. Where a sum of gradients with positive weights is zero, so that no direction is
    good for all tasks, the equation has no solution and the direction is zero to rounding.

    With :math:`\alpha = 1` the direction does not depend on the units of the losses.

    Example:
        >>> FairGrad()(torch.tensor([[4.0, 0.0], [0.0, 1.0]])).round(decimals=4)
        tensor([1., 1.])
    """

    search_space: ClassVar[Mapping[str, Space]] = {"alpha": Range(0.5, 5.0)}

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        if not (alpha == 0 or 0.1 <= alpha <= 10):  # beyond, the powers of the weights overflow
            raise ValueError(f"Parameter `alpha` should be 0, or between 0.1 and 10. Found `alpha = {alpha}`.")
        self.alpha = alpha

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.alpha == 0:
            return torch.full_like(gramian[0], 1 / len(gramian))
        return fair_weights(gramian, 1 / self.alpha).to(gramian)
