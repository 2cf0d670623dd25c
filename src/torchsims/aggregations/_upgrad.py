"""UPGrad: unconflicting projection of gradients."""

from typing import final

from torch import Tensor

from torchsims._extras import needs
from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._torchjd import from_gramian, with_unit_trace


@final
class UPGrad(WeightedAggregation):
    r"""The mean of the gradients, each projected so that it harms no task (Quinton and Rey, 2024).

    .. math::
        d = \frac{1}{m} \sum_i \pi(g_i), \qquad
        \pi(g) = \arg\min_{y} \lVert y - g \rVert \quad \text{where } g_j^\top y \ge 0 \text{ for all } j

    By TorchJD, which solves the dual problems for the Gramian divided by its trace, with ``reg_eps`` added to its
    diagonal. Its solver takes gradients below a squared norm of 1e-4 for zero; here no size does, as it depends on
    units.

    Args:
        reg_eps: keeps the problems well-posed where gradients depend on each other.

    Example:
        >>> import torch
        >>> from torchsims.aggregations import UPGrad
        >>> UPGrad()(torch.tensor([[-4.0, 1.0, 1.0], [6.0, 1.0, 1.0]]))
        tensor([0.2929, 1.9004, 1.9004])
    """

    def __init__(self, *, reg_eps: float = 1e-4) -> None:
        super().__init__()
        if not reg_eps >= 0:
            raise ValueError(f"Parameter `reg_eps` should not be negative. Found `reg_eps = {reg_eps}`.")
        with needs("gradient"):
            from torchjd.aggregation import UPGradWeighting
            from torchjd.linalg import QuadprogProjector

            self._weighting = UPGradWeighting(projector=QuadprogProjector(reg_eps=reg_eps))

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        return from_gramian(self._weighting, with_unit_trace(gramian))
