"""UW: uncertainty weights."""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from torchsims.scalarizations._base import Scalarization


@final
class UW(Scalarization):
    r"""Uncertainty weights (Kendall et al., CVPR 2018), learned together with the model.

    .. math::
        S = \sum_i \tfrac12 \left( L_i e^{-s_i} + s_i \right)

    - :math:`s` (``log_variance``, `m`): the logarithm of a noise variance for every task, a parameter in the order of
      ``tasks``. It is ``start`` at first, a tensor `... x m` for independent runs. Give it to the optimizer:
      ``Adam([*model.parameters(), *method.parameters()])``.

    At the minimum over :math:`s`, :math:`e^{s_i} = L_i` and :math:`S = \frac12 \sum_i (1 + \ln L_i)`, free of units;
    but :math:`s` gets there at the speed of its optimizer, which is slow when the losses are far from 1.

    Example:
        >>> UW(["seg", "depth"])({"seg": torch.tensor(1.0), "depth": torch.tensor(3.0)})
        tensor(2., grad_fn=<SumBackward1>)
    """

    linear: ClassVar[bool] = True

    def __init__(
        self,
        tasks: Sequence[str],
        *,
        start: float | Tensor = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(tasks)
        s = torch.zeros(len(tasks), device=device, dtype=dtype)
        self.log_variance = nn.Parameter(s + torch.as_tensor(start).to(s))

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        s = self.log_variance.to(losses.dtype)
        return ((losses * (-s).exp() + s) / 2).where(labelled, 0).sum(-1)
