"""GLS: the geometric mean of the losses."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from torchsims.scalarizations._base import Scalarization
from torchsims.scalarizations._preference import Preferences


@final
class GLS(Scalarization):
    r"""The geometric mean of the losses (Chennupati et al., CVPR Workshops 2019).

    .. math::
        S = \left( \prod_i L_i \right)^{1/m} = \exp\left( \frac1m \sum_i \ln L_i \right)

    The weight of task :math:`i` is :math:`S / (m L_i)`: other units change the length of a step, which an adaptive
    optimizer undoes, and not its direction. The mean of the logarithms is formed first, so that no product of many or
    of large losses overflows.

    - ``preference``: :math:`p_i > 0` by task, 1 for those not named: the mean of the logarithms is then weighted,
      :math:`S = \exp(\sum_i p_i \ln L_i / \sum_i p_i)`. Where losses can get small, it ends at one
      end of the Pareto front; :class:`LogMerit` chooses points between them.
    - ``tasks``: the order of stacked losses; the sorted names of the preference by default. Losses by name need none.

    Example:
        >>> import torch
        >>> GLS()(torch.tensor([1e30, 1e30, 1e-30, 1e-30]))
        tensor(1.)
    """

    positive = True

    def __init__(self, *, preference: Preferences | None = None, tasks: Sequence[str] | None = None) -> None:
        super().__init__(tasks)
        self._prefer(preference)

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.preference is not None:
            return (self.preference.shares(losses, labelled) * losses.log()).sum(-1).exp()
        return (losses.log().where(labelled, 0).sum(-1) / labelled.sum(-1)).exp()

    def closed_form(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        known = torch.ones_like(losses, dtype=torch.bool) if labelled is None else labelled
        value = self.objective(losses, known)
        if self.preference is None:
            shares = known / known.sum(-1, keepdim=True, dtype=losses.dtype)
        else:
            shares = self.preference.shares(losses, known)
        return value, value.unsqueeze(-1) * shares / losses
