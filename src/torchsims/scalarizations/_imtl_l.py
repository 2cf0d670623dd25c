"""IMTL-L: learned scales of the losses."""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from torchsims.scalarizations._base import Scalarization


@final
class IMTLL(Scalarization):
    r"""IMTL-L (Liu et al., ICLR 2021): learned scales that bring every loss to 1.

    .. math::
        S = \sum_i \left( e^{s_i} L_i - s_i \right)

    - :math:`s` (``log_scale``, `m`): the logarithm of the scale of every task, a parameter in the order of ``tasks``.
      It is ``start`` at first, a tensor `... x m` for independent runs. Give it to the optimizer:
      ``Adam([*model.parameters(), *method.parameters()])``.

    It is :class:`UW` with :math:`s` of the other sign and without the factor one half.

    Example:
        >>> IMTLL(["seg", "depth"])({"seg": torch.tensor(1.0), "depth": torch.tensor(3.0)})
        tensor(4., grad_fn=<SumBackward1>)
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
        self.log_scale = nn.Parameter(s + torch.as_tensor(start).to(s))

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        s = self.log_scale.to(losses.dtype)
        return (s.exp() * losses - s).where(labelled, 0).sum(-1)
