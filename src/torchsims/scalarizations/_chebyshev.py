"""The weighted Chebyshev distance to the ideal point."""

from typing import final

import torch
from torch import Tensor

from torchsims.scalarizations._ideal import FromIdeal, PerTask


@final
class Chebyshev(FromIdeal):
    r"""The weighted Chebyshev distance to the ideal point: only the worst task counts.

    .. math::
        S = \max_i w_i (L_i - z_i)

    - :math:`w` (``weights``): positive, by task name or in the order of the losses; :math:`1/m` by default.
    - :math:`z` (``ideal``): the least value of every loss, alike; zero by default.

    It is :class:`STCH` for :math:`\mu \to 0`, and depends on the units of the losses.

    Example:
        >>> Chebyshev(weights={"seg": 10.0, "depth": 1.0})({"seg": torch.tensor(2.0), "depth": torch.tensor(3.0)})
        tensor(20.)
    """

    def __init__(self, weights: PerTask | None = None, ideal: PerTask | None = None) -> None:
        super().__init__(weights, ideal)

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        return self._distances(losses, labelled).where(labelled, -torch.inf).amax(-1)
