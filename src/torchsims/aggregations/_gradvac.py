"""GradVac: gradient vaccine."""

from collections.abc import Mapping
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from torchsims._draws import Draws
from torchsims._extras import needs
from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._torchjd import from_gramian
from torchsims.spaces import Range, Space


@final
class GradVac(WeightedAggregation):
    r"""Gradient vaccine: gradients are turned towards their usual similarity (Wang et al., ICLR 2021).

    .. math::
        d = \sum_i g_i', \qquad
        g_i' \leftarrow g_i' + \frac{\lVert g_i' \rVert \big( \hat\phi_{ij} \sqrt{1 - \phi_{ij}^2}
        - \phi_{ij} \sqrt{1 - \hat\phi_{ij}^2} \big)}{\lVert g_j \rVert \sqrt{1 - \hat\phi_{ij}^2}} \, g_j
        \quad \text{if } \phi_{ij} < \hat\phi_{ij}

    - :math:`\phi_{ij}`: the cosine between :math:`g_i'` and :math:`g_j`, for all :math:`j \ne i` in random order, drawn
      from a generator of its own (``seed``).
    - :math:`\hat\phi` (``phi``, `m x m`): its running mean, :math:`(1 - \beta) \hat\phi + \beta \phi` after each step,
      zero at the start; kept in the ``state_dict``.
    - :math:`\beta` (``beta``): from 0, which is PCGrad, to 1.

    By TorchJD, which adds ``eps`` to both denominators, so that none is zero. Pairs with a task without labels keep
    their :math:`\hat\phi`.

    Example:
        >>> GradVac()(torch.tensor([[1.0, 0.0], [-1.0, 1.0]])).round(decimals=4)
        tensor([0.5000, 1.5000])
    """

    phi: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"beta": Range(0.01, 0.99, log=False)}

    def __init__(self, beta: float = 0.5, *, eps: float = 1e-8, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= beta <= 1:
            raise ValueError(f"Parameter `beta` should be between 0 and 1. Found `beta = {beta}`.")
        if not eps >= 0:
            raise ValueError(f"Parameter `eps` should not be negative. Found `eps = {eps}`.")
        self.draws = Draws(seed)
        self._register_statistics("phi")
        with needs("gradient"):
            from torchjd.aggregation import GradVacWeighting

            # Not a submodule: its buffer has no fixed shape, and `phi` is what belongs into the state.
            self._weighting: tuple[Any] = (GradVacWeighting(beta=beta, eps=eps),)

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        (weighting,) = self._weighting
        index = labelled.nonzero()[:, 0].cpu()
        pairs = (index[:, None], index)
        phi = self._get_statistic("phi", torch.zeros(len(labelled), len(labelled), dtype=torch.float64), 0.0).clone()
        # TorchJD keeps it here, with the shape and type it is for.
        weighting._phi_t, weighting._state_key = phi[pairs], (len(index), phi.dtype)
        with self.draws.fork(phi.device, self.training):
            weights = from_gramian(weighting, gramian)
        if self.training:
            phi[pairs] = weighting._phi_t
            self.phi = phi
        return weights
