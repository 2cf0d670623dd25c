"""UPGrad: unconflicting projection of gradients."""

from typing import final

from torchsims._extras import needs
from torchsims.aggregations._torchjd import TorchJDWeighting


@final
class UPGrad(TorchJDWeighting):
    r"""The mean of the gradients, each projected so that it harms no task (Quinton and Rey, 2024).

    .. math::
        d = \frac{1}{m} \sum_i \pi(g_i), \qquad
        \pi(g) = \arg\min_{y} \lVert y - g \rVert \quad \text{where } g_j^\top y \ge 0 \text{ for all } j

    By TorchJD, which solves the dual problems for the Gramian divided by its trace, with ``reg_eps`` added to its
    diagonal, which keeps them well-posed where gradients depend on each other. Its solver takes gradients below a
    squared norm of 1e-4 for zero; here no size does, as it depends on units.

    Example:
        >>> import torch
        >>> UPGrad()(torch.tensor([[-4.0, 1.0, 1.0], [6.0, 1.0, 1.0]]))
        tensor([0.2929, 1.9004, 1.9004])
    """

    unit_trace = True

    def __init__(self, *, reg_eps: float = 1e-4) -> None:
        super().__init__()
        if not reg_eps >= 0:
            raise ValueError(f"Parameter `reg_eps` should not be negative. Found `reg_eps = {reg_eps}`.")
        with needs("gradient"):
            from torchjd.aggregation import UPGradWeighting
            from torchjd.linalg import QuadprogProjector

            self._weighting = UPGradWeighting(projector=QuadprogProjector(reg_eps=reg_eps))
