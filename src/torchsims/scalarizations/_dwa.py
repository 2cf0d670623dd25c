"""DWA: dynamic weight averaging."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims._statistics import EpochMean
from torchsims.scalarizations._base import HeldWeights
from torchsims.spaces import Range, Space


@final
class DWA(HeldWeights):
    r"""Dynamic weight averaging (Liu et al., CVPR 2019): more weight for the tasks that improved least.

    .. math::
        S = \sum_i w_i L_i, \qquad w = m \operatorname{softmax}(r / T), \qquad
        r_i = \frac{\bar L_i^{(e-1)}}{\bar L_i^{(e-2)}}

    - :math:`\bar L_i^{(e)}`: the mean loss of epoch :math:`e`; call :meth:`end_epoch` after each.
    - :math:`r` (``rate``, `m`): 1 until a task has two means, so that all weights are 1 in epochs 0 and 1.
    - :math:`T` (``temperature``): large values make the weights equal.

    The weights do not depend on units, the sum of the losses does. A task without a label in an epoch keeps its rate.

    Example:
        >>> method = DWA()
        >>> for losses in torch.tensor([[1.0, 8.0], [1.0, 4.0]]):  # the second task halves in an epoch
        ...     objective = method(losses)
        ...     method.end_epoch()
        >>> losses = torch.ones(2, requires_grad=True)
        >>> method(losses).backward()
        >>> losses.grad
        tensor([1.1244, 0.8756])
    """

    linear: ClassVar[bool] = True
    last: Tensor
    rate: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"temperature": Range(0.5, 8.0)}

    def __init__(self, temperature: float = 2.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"Parameter `temperature` should be positive. Found `temperature = {temperature}`.")
        self.temperature = temperature
        self.epoch_mean = EpochMean()
        self._register_statistics("last", "rate")

    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.training:
            self.epoch_mean.add(losses, labelled)
        logits = self._get_statistic("rate", losses, 1.0) / self.temperature
        return labelled.sum(-1, keepdim=True) * torch.softmax(logits.where(labelled, -torch.inf), -1)

    def end_epoch(self) -> None:
        mean = self.epoch_mean.close()
        last = self._get_statistic("last", mean)
        rate = mean / last
        self.rate = rate.where(rate.isfinite(), self._get_statistic("rate", mean, 1.0))
        self.last = mean.where(~mean.isnan(), last)
