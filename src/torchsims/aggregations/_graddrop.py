"""GradDrop: gradient sign dropout."""

from typing import final

import torch
from torch import Tensor

from torchsims._draws import Draws
from torchsims._extras import needs
from torchsims.aggregations._base import Aggregation


@final
class GradDrop(Aggregation):
    r"""Gradient sign dropout: every coordinate keeps the gradients of one sign (Chen et al., NeurIPS 2020).

    .. math::
        d_c = \sum_i \big( \ell + (1 - \ell) \, [\operatorname{sign} g_{ic} = s_c] \big) \, g_{ic}, \qquad
        \operatorname{P}(s_c = +1) = \frac12 \Big( 1 + \frac{\sum_i g_{ic}}{\sum_i |g_{ic}|} \Big)

    - :math:`s_c`: a sign for every coordinate :math:`c`, drawn from a generator of its own (``seed``), whose state is
      in the ``state_dict``.
    - :math:`\ell` (``leak``): how much passes anyway, from 0 to 1, which is the sum of the gradients.

    By TorchJD. The direction is not a sum of whole gradients, so that the reported weights are NaN. The paper applies
    it to the shared representation; here it sees the gradients by the shared parameters.

    Example:
        >>> GradDrop()(torch.tensor([[1.0, 2.0], [1.0, 3.0]]))
        tensor([2., 5.])
    """

    def __init__(self, leak: float = 0.0, *, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= leak <= 1:
            raise ValueError(f"Parameter `leak` should be between 0 and 1. Found `leak = {leak}`.")
        self.leak = leak
        self.draws = Draws(seed)
        with needs("gradient"):
            from torchjd.aggregation import GradDrop as Aggregator

            self._aggregator = Aggregator()

    def combine(self, jacobian: Tensor, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        self._aggregator.leak = jacobian.new_full((len(jacobian),), self.leak)
        with self.draws.fork(jacobian.device, self.training):
            return self._aggregator(jacobian), torch.full_like(losses, torch.nan)
