"""Nash-MTL: the Nash bargaining solution."""

from typing import final

import torch
from torch import Tensor

from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._fair_weights import fair_weights


@final
class NashMTL(WeightedAggregation):
    r"""The Nash bargaining solution of the tasks (Navon et al., ICML 2022).

    .. math::
        d = \sum_i \alpha_i g_i, \qquad G \alpha = 1 / \alpha, \qquad G_{ij} = g_i^\top g_j

    - :math:`\alpha` (``alpha``, `m`): the solution, by Newton's method on the host; kept in the ``state_dict``. The
      authors and TorchJD take 20 convex problems towards it, from that of the last step, and stop early where gradients
      differ much in length; here it is a function of the Gramian alone.
    - ``max_norm``: the longest :math:`d`; 0 for no limit.
    - ``update_every``: the number of steps between updates of :math:`\alpha`; 1 updates it in every step.

    Neither the direction nor its length depends on the units of the losses. The length of :math:`d` does not depend on
    that of the gradients: :math:`\sqrt m` before it is limited, so a step is as long at the end of a training as at its
    start. A task without labels or with a gradient of zero keeps its :math:`\alpha`, 1 at first. Where a sum of
    gradients with positive weights is zero, so that no direction is good for all tasks, the equation has no solution
    and the direction is zero to rounding.

    Example:
        >>> NashMTL()(torch.tensor([[100.0, 0.0], [0.0, 1.0]])).round(decimals=3)
        tensor([0.7070, 0.7070])
    """

    alpha: Tensor

    def __init__(self, max_norm: float = 1.0, *, update_every: int = 1) -> None:
        super().__init__()
        if not max_norm >= 0:
            raise ValueError(f"Parameter `max_norm` should not be negative. Found `max_norm = {max_norm}`.")
        if not (isinstance(update_every, int) and update_every > 0):
            raise ValueError(
                f"Parameter `update_every` should be a positive integer. Found `update_every = {update_every}`."
            )
        self.max_norm, self.update_every = max_norm, update_every
        self.steps = 0  # a number and not a buffer: reading it in a step waits for no device
        self._register_statistics("alpha")

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        host = gramian.detach().cpu()
        # As many rows as tasks: all have labels, and the host need not wait for which.
        known = labelled.cpu() if len(host) < len(labelled) else torch.ones(len(host), dtype=torch.bool)
        alpha = self._get_statistic("alpha", known.double(), 1.0)
        if self.steps % self.update_every == 0:
            found = fair_weights(host)
            alpha = alpha.masked_scatter(known, found.where(host.diagonal() != 0, alpha[known]))
        if self.training:
            self.steps += 1
            self.alpha = alpha
        return self._clipped(alpha[known], host.double()).to(gramian)

    def _clipped(self, alpha: Tensor, gramian: Tensor) -> Tensor:
        norm = (alpha @ gramian @ alpha).clamp(min=0).sqrt()
        return alpha / norm * self.max_norm if 0 < self.max_norm < norm else alpha

    def get_extra_state(self) -> int:
        return self.steps

    def set_extra_state(self, state: int) -> None:
        self.steps = state
