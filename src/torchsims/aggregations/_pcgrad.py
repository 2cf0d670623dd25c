"""PCGrad: projecting conflicting gradients."""

from typing import final

from torch import Tensor

from torchsims._draws import Draws
from torchsims._extras import needs
from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._torchjd import from_gramian


@final
class PCGrad(WeightedAggregation):
    r"""Projecting conflicting gradients (Yu et al., NeurIPS 2020).

    .. math::
        d = \sum_i g_i', \qquad
        g_i' \leftarrow g_i' - \frac{\min(g_i'^\top g_j, 0)}{\lVert g_j \rVert^2} g_j
        \quad \text{for all } j \ne i \text{ in random order, from } g_i' = g_i

    - The order is drawn from a generator of its own (``seed``), whose state is in the ``state_dict``.

    The direction is a sum and not a mean: with :math:`m` tasks that agree it is :math:`m` times that of equal weights.
    By TorchJD.

    Example:
        >>> import torch
        >>> PCGrad()(torch.tensor([[1.0, 0.0], [-1.0, 1.0]]))
        tensor([0.5000, 1.5000])
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.draws = Draws(seed)
        with needs("gradient"):
            from torchjd.aggregation import PCGradWeighting

            self._weighting = PCGradWeighting()

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        host = gramian.cpu()
        with self.draws.fork(host.device, self.training):
            return from_gramian(self._weighting, host).to(gramian)
