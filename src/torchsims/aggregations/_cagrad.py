"""CAGrad: conflict-averse gradient descent."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims._extras import needs
from torchsims.aggregations._torchjd import TorchJDWeighting
from torchsims.spaces import Range, Space


@final
class CAGrad(TorchJDWeighting):
    r"""Conflict-averse descent: the best worst task within a ball around the mean (Liu et al., NeurIPS 2021).

    .. math::
        d = \arg\max_d \min_i g_i^\top d \quad \text{where } \lVert d - g_0 \rVert \le c \lVert g_0 \rVert, \qquad
        g_0 = \frac{1}{m} \sum_i g_i

    - :math:`c` (``c``): the radius, :math:`c \ge 0`; 0 gives the mean.
    - ``rescale``: divides :math:`d` by :math:`1 + c^2`, as the authors' script does by default. The paper's Algorithm 1
      and TorchJD do not, and neither does the default here; with optimizers such as Adam it makes no difference.

    - ``norm_eps``: the norm, relative to all gradients, below which the direction counts as zero.

    By TorchJD. Its solver takes gradients below a squared norm of ``norm_eps`` for zero, at once or in the direction;
    here only the second counts, because the first depends on units. Where losses in native units make some gradients
    1e4 times as large as others, training stands still; a smaller ``norm_eps`` lets it move.

    Example:
        >>> import torch
        >>> CAGrad(c=0.5)(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        tensor([0.7500, 0.7500])
    """

    unit_trace = True

    search_space: ClassVar[Mapping[str, Space]] = {"c": Range(0.1, 0.9, log=False)}

    def __init__(self, c: float = 0.5, *, rescale: bool = False, norm_eps: float = 1e-4) -> None:
        super().__init__()
        if not 0 <= c <= 1e6:  # the solver is not accurate far beyond
            raise ValueError(f"Parameter `c` should be between 0 and 1e6. Found `c = {c}`.")
        if not norm_eps >= 0:
            raise ValueError(f"Parameter `norm_eps` should not be negative. Found `norm_eps = {norm_eps}`.")
        self.c, self.rescale = c, rescale
        with needs("gradient"):
            from torchjd.aggregation import CAGradWeighting

            self._weighting = CAGradWeighting(c=c, norm_eps=norm_eps)

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        if not gramian.any():
            return torch.full_like(gramian[0], 1 / len(gramian))
        weights = super().weights(gramian, losses, labelled)
        return weights / (1 + self.c**2) if self.rescale else weights
