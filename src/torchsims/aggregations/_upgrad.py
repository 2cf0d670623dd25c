"""UPGrad: unconflicting projection of gradients."""

from typing import final

import numpy as np
import torch
from torch import Tensor

from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._nonnegative import cosines, minimize, rounding_of, to_host


@final
class UPGrad(WeightedAggregation):
    r"""The mean of the gradients, each projected so that it harms no task (Quinton and Rey, 2024).

    .. math::
        d = \frac{1}{m} \sum_i \pi(g_i), \qquad
        \pi(g) = \arg\min_{y} \lVert y - g \rVert \quad \text{where } g_j^\top y \ge 0 \text{ for all } j

    - ``reg_eps``: what is added to the diagonal of the Gramian divided by its trace. It keeps the projections from
      jumping where gradients nearly depend on each other, and lets small gradients be harmed a little. With 0 they are
      those of the formula, and the constraints of a task do not depend on the unit of its loss.

    A projection is :math:`g_i` plus a sum of gradients with weights of zero or more, the minima of quadratic programs.
    They share the Gramian and are solved all at once, on the host. TorchJD solves them one after the other, and takes
    gradients below a squared norm of 1e-4 for zero; here no size does, as it depends on units.

    Example:
        >>> UPGrad()(torch.tensor([[-4.0, 1.0, 1.0], [6.0, 1.0, 1.0]]))
        tensor([0.2929, 1.9004, 1.9004])
    """

    def __init__(self, *, reg_eps: float = 1e-4) -> None:
        super().__init__()
        if not reg_eps >= 0:
            raise ValueError(f"Parameter `reg_eps` should not be negative. Found `reg_eps = {reg_eps}`.")
        self.reg_eps = reg_eps

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        host = to_host(gramian)
        if not np.isfinite(host).all():
            return torch.full_like(gramian[0], torch.nan)
        w = np.ones(len(host))
        (known,) = host.diagonal().nonzero()  # a gradient of zero is its own projection, and harms no task
        if len(known):
            g = host[np.ix_(known, known)] / host.trace()
            n = np.sqrt(g.diagonal() + self.reg_eps)
            c, lowest = cosines(g, n, rounding_of(gramian))
            # In row i the projection of g_i / n_i is that plus x_ij g_j / n_j, and C_i is its linear term.
            w[known] += n @ minimize(c, c, lowest) / n
        return torch.from_numpy(w / len(host)).to(gramian)
