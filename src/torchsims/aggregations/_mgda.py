"""MGDA: the shortest vector in the convex hull of the gradients."""

from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._nonnegative import Array, cosines, minimize, rounding_of, to_host

_NORMALIZERS = ("none", "loss", "norm", "loss+norm")


@final
class MGDA(WeightedAggregation):
    r"""The shortest vector in the convex hull of the gradients (Désidéri 2012; Sener and Koltun, NeurIPS 2018).

    .. math::
        d = \sum_i \alpha_i \frac{g_i}{n_i}, \qquad
        \alpha = \arg\min_{\alpha \in \Delta} \Big\lVert \sum_i \alpha_i \frac{g_i}{n_i} \Big\rVert^2

    - :math:`n_i` (``normalize``): 1 (``"none"``), :math:`L_i` (``"loss"``), :math:`\lVert g_i \rVert` (``"norm"``) or
      :math:`L_i \lVert g_i \rVert` (``"loss+norm"``). The second and the third make the direction independent of the
      units of the losses; the last, the authors' ``loss+``, divides by them twice. A gradient of zero is divided by 1.
    - :math:`\alpha`: the minimum of a quadratic program, found to rounding on the host. The authors' script and TorchJD
      stop Frank-Wolfe iterations before, so that their directions are longer.

    At the minimum :math:`g_i^\top d \ge n_i \lVert d \rVert^2` for every task: all descend. So that this holds with
    normalisation too, the direction is made of the normalised gradients; the authors' script puts the
    weights :math:`\alpha_i` on the gradients themselves, which loses it.

    Example:
        >>> import torch
        >>> MGDA()(torch.tensor([[1.0, 1.0], [1.0, -1.0]]))
        tensor([1., 0.])
    """

    def __init__(self, normalize: Literal["none", "loss", "norm", "loss+norm"] = "none") -> None:
        super().__init__()
        if normalize not in _NORMALIZERS:
            raise ValueError(
                f"Parameter `normalize` should be one of {_NORMALIZERS}. Found `normalize = {normalize!r}`."
            )
        self.normalize = normalize
        self.positive = "loss" in normalize

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        host = to_host(gramian)
        underflows = self.positive and not (losses * losses).all()  # then a gradient only seems to be zero
        if underflows or not np.isfinite(host).all():
            return torch.full_like(gramian[0], torch.nan)
        lengths, n = np.sqrt(host.diagonal()), np.ones(len(host))
        if "loss" in self.normalize:
            n *= losses.detach().to("cpu", torch.float64).numpy()
        if "norm" in self.normalize:
            n *= np.where(lengths > 0, lengths, 1)
        return torch.from_numpy(_shortest(host, lengths, n, rounding_of(gramian)) / n).to(gramian)


def _shortest(gramian: Array, lengths: Array, n: Array, rounding: float) -> Array:
    r"""Return the :math:`\alpha`, `k`.

    With :math:`s_i = \lVert g_i \rVert / n_i` it is :math:`x_i / s_i`, divided by its sum, for

    .. math::
        x = \arg\min_{x \ge 0} \tfrac12 x^\top C x - \sum_i \frac{x_i}{s_i}, \qquad
        C_{ij} = \frac{g_i^\top g_j}{\lVert g_i \rVert \lVert g_j \rVert}

    which has the conditions of the shortest vector: :math:`g_i^\top d / n_i` is the same where :math:`\alpha_i > 0`,
    and nowhere below that.
    """
    if lengths.all():
        c, lowest = cosines(gramian, lengths, rounding)
        shares = (lengths / n).min() / (lengths / n)
        (x,) = minimize(c, -shares[None], lowest)
        alpha: Array = x * shares
    else:  # a gradient of zero is the shortest vector
        alpha = (lengths == 0).astype(np.float64)
    alpha /= alpha.sum()
    return alpha
