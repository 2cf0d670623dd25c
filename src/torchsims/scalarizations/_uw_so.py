"""UW-SO: soft optimal uncertainty weighting."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import HeldWeights
from torchsims.spaces import Range, Space


@final
class UWSO(HeldWeights):
    r"""Soft optimal uncertainty weighting (Kirchdorfer et al., GCPR 2024, arXiv 2408.07985): small losses count more.

    .. math::
        S = \sum_i w_i L_i, \qquad w = \operatorname{softmax}\!\Big( \frac{1}{T L} \Big) \text{ held constant}

    - :math:`1 / L_i`: the weight that minimises the objective of :class:`UW`; it alone would be the sum of the
      logarithms of the losses. The softmax makes the weights sum to one.
    - :math:`T` (``temperature``): large values make the weights equal. The paper tunes it for every data set, and 1 is
      only a place to start.

    The weights depend on the units of the losses twice: through the exponent, and in the sum. A task in a unit that
    makes its loss small gets all the weight.

    Example:
        >>> losses = torch.tensor([0.5, 1.0], requires_grad=True)
        >>> UWSO()(losses).backward()
        >>> losses.grad
        tensor([0.7311, 0.2689])
    """

    positive = True

    search_space: ClassVar[Mapping[str, Space]] = {"temperature": Range(0.1, 100.0)}

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"Parameter `temperature` should be positive. Found `temperature = {temperature}`.")
        self.temperature = temperature

    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        logits = 1 / (self.temperature * losses)
        return torch.softmax(logits.where(labelled, -torch.inf), -1)
