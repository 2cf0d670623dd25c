"""CAGrad: conflict-averse gradient descent."""

from collections.abc import Mapping
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._nonnegative import ROUNDING, Array, cosines, minimize, rounding_of, to_host
from torchsims.spaces import Range, Space


@final
class CAGrad(WeightedAggregation):
    r"""Conflict-averse descent: the best worst task within a ball around the mean (Liu et al., NeurIPS 2021).

    .. math::
        d = \arg\max_d \min_i g_i^\top d \quad \text{where } \lVert d - g_0 \rVert \le s, \qquad
        s = c \lVert g_0 \rVert, \qquad g_0 = \frac{1}{m} \sum_i g_i

    - :math:`c` (``c``): the radius, :math:`c \ge 0`; 0 gives the mean.
    - ``rescale``: divides :math:`d` by :math:`1 + c^2`, as the authors' script does by default. The paper's Algorithm 1
      and TorchJD do not, and neither does the default here; with optimizers such as Adam it makes no difference.
    - ``norm_eps``: the norm, relative to all gradients, below which the direction counts as zero: that of
      :math:`g_w = \sum_i w_i g_i`, where :math:`d = g_0 + s g_w / \lVert g_w \rVert` and the weights :math:`w` add up
      to 1.

    Where losses in native units make some gradients 1e4 times as large as others, training stands still, as with
    TorchJD, whose rule this is; a smaller ``norm_eps`` lets it move. TorchJD also takes gradients below a squared norm
    of ``norm_eps`` for zero; that depends on units, and is not done here.

    Example:
        >>> CAGrad(c=0.5)(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        tensor([0.7500, 0.7500])
    """

    search_space: ClassVar[Mapping[str, Space]] = {"c": Range(0.1, 0.9, log=False)}

    def __init__(self, c: float = 0.5, *, rescale: bool = False, norm_eps: float = 1e-4) -> None:
        super().__init__()
        if not 0 <= c <= 1e6:  # beyond, the mean is lost in rounding
            raise ValueError(f"Parameter `c` should be between 0 and 1e6. Found `c = {c}`.")
        if not norm_eps >= 0:
            raise ValueError(f"Parameter `norm_eps` should not be negative. Found `norm_eps = {norm_eps}`.")
        self.c, self.rescale, self.norm_eps = c, rescale, norm_eps

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        host = to_host(gramian)
        if not np.isfinite(host).all():
            return torch.full_like(gramian[0], torch.nan)
        w = self._weights(host / (host.trace() or 1.0), rounding_of(gramian))
        return torch.from_numpy(w / (1 + self.c**2) if self.rescale else w).to(gramian)

    def _weights(self, g: Array, rounding: float) -> Array:
        """Return the weights for a Gramian of trace 1."""
        mean = np.full(len(g), 1 / len(g))
        p = g @ mean  # g_i g_0
        s = self.c * np.sqrt(max(float(p @ mean), 0.0))
        if not s > ROUNDING * self.c or self.c < ROUNDING:  # no ball beyond rounding
            return mean
        n = np.sqrt(g.diagonal())
        (known,) = n.nonzero()
        n = n[known]
        c, lowest = cosines(g[np.ix_(known, known)], n, rounding)
        if self.c >= 1:
            (x,) = minimize(c, -1 / n[None], lowest)  # in the direction of the shortest sum of gradients
            if x @ c @ x <= 4 * rounding * (x @ x):  # no direction is good for all, and the ball holds zero
                return np.zeros_like(mean)
        x, worst = _correction(c, lowest, n, p[known], s)
        # A gradient of zero bounds the worst task by zero, and where that is reached g_w is this gradient.
        if s < self.norm_eps * (x / n).sum() or (worst > 0 and len(known) < len(g)):
            return np.zeros_like(mean)
        mean[known] += x / n
        return mean


def _correction(c: Array, lowest: float, n: Array, p: Array, s: float) -> tuple[Array, float]:
    r"""Return the :math:`x \ge 0`, `k`, with :math:`d = g_0 + \sum_i x_i g_i / n_i`, and :math:`\min_i g_i^\top d`.

    The shortest way from :math:`g_0` to where :math:`g_i^\top d \ge \lambda` for all tasks is a quadratic program,

    .. math::
        x = \arg\min_{x \ge 0} \tfrac12 x^\top C x + q^\top x, \qquad q_i = \frac{p_i - \lambda}{n_i}, \qquad
        p_i = g_i^\top g_0, \qquad C_{ij} = \frac{g_i^\top g_j}{n_i n_j}

    Its length :math:`r = \sqrt{x^\top C x}` is convex in :math:`\lambda`, with slope :math:`\sum_i x_i / n_i r`. From
    where one task alone needs :math:`s`, which is too far, Newton's method comes down to :math:`r = s`. Where some sum
    of gradients with positive weights is zero, no :math:`\lambda > 0` can be had, and rounding decides on :math:`r`
    there: the interval that holds the solution is halved when a step leaves it.
    """
    base = p.min()
    below, above = 0.0, float((p - base + s * n).min())  # of lambda - base
    rise, x, best = above, np.zeros_like(p), np.zeros_like(p)
    while True:
        q = (p - base - rise) / n
        (x,) = minimize(c, q[None], lowest, x[None])
        r = np.sqrt(max(float(-q @ x), 0.0))
        if r <= s:
            best, below = x, rise
        else:
            above = rise
        step = (s - r) * r / float((x / n).sum())
        if abs(step) <= 4 * len(n) * ROUNDING * rise:
            return x, float(base + rise)
        if above - below <= 4 * ROUNDING * above:
            return best, float(base + below)
        rise = rise + step if below < rise + step < above else (below + above) / 2
