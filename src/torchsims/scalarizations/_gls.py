"""GLS: the geometric mean of the losses."""

from typing import final

from torch import Tensor

from torchsims.scalarizations._base import Scalarization


@final
class GLS(Scalarization):
    r"""The geometric mean of the losses (Chennupati et al., CVPR Workshops 2019).

    .. math::
        S = \left( \prod_i L_i \right)^{1/m} = \exp\left( \frac1m \sum_i \ln L_i \right)

    The weight of task :math:`i` is :math:`S / (m L_i)`: other units change the length of a step, which an adaptive
    optimizer undoes, and not its direction. The mean of the logarithms is formed first, so that no product of many or
    of large losses overflows.

    Example:
        >>> import torch
        >>> GLS()(torch.tensor([1e30, 1e30, 1e-30, 1e-30]))
        tensor(1.)
    """

    positive = True

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        return (losses.log().where(labelled, 0).sum(-1) / labelled.sum(-1)).exp()
