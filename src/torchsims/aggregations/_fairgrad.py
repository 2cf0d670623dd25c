"""FairGrad: alpha-fair progress of the tasks."""

from collections.abc import Mapping
from typing import ClassVar, final

from torchsims._extras import needs
from torchsims.aggregations._torchjd import TorchJDWeighting
from torchsims.spaces import Range, Space


@final
class FairGrad(TorchJDWeighting):
    r"""Weights of alpha-fair progress (Ban and Ji, ICML 2024).

    .. math::
        d = \sum_i w_i g_i, \qquad G w = w^{-1/\alpha}, \qquad G_{ij} = g_i^\top g_j

    - :math:`\alpha` (``alpha``): the fairness; 0 is the mean, 1 proportional fairness (the equation of Nash-MTL), large
      values look at the worst task.
    - :math:`w`: by TorchJD, which solves the equation in the sense of least squares, from equal weights, in at most
      ``max_iters`` evaluations; ``None`` leaves their number to SciPy.

    The weights depend on the size of the gradients, and their equation is hard to solve where that is far from 1:
    a ``normalize`` of the stepper or ``transform=Log()`` helps.

    The solver stops early. For gradients of very different lengths it can make percents of a rounding error in the
    Gramian: that is how far the steps of a batch and of its micro-batches, or of several ranks, can differ.

    Example:
        >>> import torch
        >>> FairGrad()(torch.tensor([[4.0, 0.0], [0.0, 1.0]])).round(decimals=4)
        tensor([1., 1.])
    """

    search_space: ClassVar[Mapping[str, Space]] = {"alpha": Range(0.5, 5.0)}

    def __init__(self, alpha: float = 1.0, *, max_iters: int | None = None) -> None:
        super().__init__()
        if not (alpha == 0 or alpha >= 0.01):  # in between, the powers of the weights overflow
            raise ValueError(f"Parameter `alpha` should be 0, or 0.01 or more. Found `alpha = {alpha}`.")
        if max_iters is not None and not (isinstance(max_iters, int) and max_iters > 0):
            raise ValueError(f"Parameter `max_iters` should be a positive integer. Found `max_iters = {max_iters}`.")
        with needs("gradient"):
            from torchjd.aggregation import FairGradWeighting

            self._weighting = FairGradWeighting(alpha=alpha, max_iters=max_iters)
