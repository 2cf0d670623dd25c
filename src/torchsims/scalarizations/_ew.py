"""EW: equal weights."""

from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import Scalarization


@final
class EW(Scalarization):
    r"""Equal weights, the mean of the losses: :math:`S = \frac{1}{m} \sum_i L_i`.

    The largest unit wins: it is the baseline that every other method answers.

    Example:
        >>> import torch
        >>> EW()(torch.tensor([1.0, 3.0]))
        tensor(2.)
    """

    linear: ClassVar[bool] = True

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        return losses.where(labelled, 0).sum(-1) / labelled.sum(-1)

    def closed_form(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        if labelled is None:
            m = losses.shape[-1]
            return losses.sum(-1) / m, torch.full_like(losses, 1 / m)
        return self.objective(losses, labelled), labelled / labelled.sum(-1, keepdim=True, dtype=losses.dtype)
