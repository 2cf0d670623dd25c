"""ConFIG: conflict-free inverse gradients."""

from typing import final

import torch
from torch import Tensor

from torchsims._extras import needs
from torchsims.aggregations._base import Aggregation


@final
class ConFIG(Aggregation):
    r"""Conflict-free gradients: equal angles to all of them (Liu, Chu and Thuerey, ICLR 2025).

    .. math::
        d = \Big( \sum_i g_i^\top u \Big) u, \qquad u = \frac{U^+ \mathbf{1}}{\lVert U^+ \mathbf{1} \rVert}

    - :math:`U`: the gradients divided by their norms, `m x n`; :math:`U^+` is its pseudo-inverse.

    By TorchJD, which works on the gradients themselves; the reported weights are NaN.

    Example:
        >>> ConFIG()(torch.tensor([[4.0, 0.0], [0.0, 1.0]])).round(decimals=4)
        tensor([2.5000, 2.5000])
    """

    def __init__(self) -> None:
        super().__init__()
        with needs("gradient"):
            from torchjd.aggregation import ConFIG as Aggregator

            self._aggregator = Aggregator()

    def combine(self, jacobian: Tensor, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        return self._aggregator(jacobian), torch.full_like(losses, torch.nan)
