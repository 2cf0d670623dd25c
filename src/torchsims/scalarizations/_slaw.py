"""SLAW: scaled loss approximate weighting."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import HeldWeights
from torchsims.spaces import Choice, Space

_SMALLEST_SPREAD = 1e-5  # of a loss, as a part of its mean: a loss that hardly moves must not take all the weight


@final
class SLAW(HeldWeights):
    r"""Scaled loss approximate weighting (Crawshaw and Košecká, arXiv 2109.08218): losses divided by their spread.

    .. math::
        S = \sum_i w_i L_i, \qquad w_i = \frac{m / s_i}{\sum_j 1 / s_j} \text{ held constant}, \qquad
        s_i = \sqrt{a_i - b_i^2}

    - :math:`b_i` (``mean``) and :math:`a_i - b_i^2` (``variance``): running means of the loss and of its squared
      distance from it, this step included. The first :math:`1 / (1 - \beta)` steps of a task count alike, as in the
      authors' code; then every step counts :math:`1 - \beta`. The variance is updated as such: the difference of
      :math:`a_i` and :math:`b_i^2` would lose all digits of a loss that moves little.
    - :math:`\beta` (``decay``): how slowly they follow.
    - :math:`m`: the number of tasks with a label.

    The spread over steps stands for the length of the task's gradient. Two things are independent of units here, unlike
    in the authors' code: :math:`s_i \ge 10^{-5} |b_i|`, where it has :math:`10^{-5}`; and in the first step of a task,
    which has no spread yet, :math:`s_i = |b_i|`, where it has weights of one. Units of the losses then change only the
    length of a step, through the sum of the weights, and not its direction.

    Example:
        >>> method = SLAW()
        >>> for losses in torch.tensor([[1.0, 100.0], [2.0, 200.0]]):  # the same loss in two units
        ...     objective = method(losses)
        >>> losses = torch.tensor([1.5, 150.0], requires_grad=True)
        >>> method(losses).backward()
        >>> losses.grad
        tensor([1.9802, 0.0198])
    """

    mean: Tensor
    variance: Tensor
    steps: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"decay": Choice((0.9, 0.99, 0.999))}

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"Parameter `decay` should be in [0, 1). Found `decay = {decay}`.")
        self.decay = decay
        self._register_statistics("mean", "variance", "steps")

    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        b, variance, steps = self._moments(losses, labelled)
        least = b.abs().where(steps == 1, _SMALLEST_SPREAD * b.abs())
        s = torch.maximum(variance.sqrt(), least)
        inverse = (1 / s).where(labelled & (s > 0), 0)  # a loss that was always zero needs no weight
        total = inverse.sum(-1, keepdim=True)
        return labelled.sum(-1, keepdim=True) * inverse / total.where(total > 0, 1)

    def _moments(self, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, variance and number of steps with this step's losses; unlabelled tasks keep theirs."""
        before = [self._get_statistic(name, losses, 0.0) for name in ("mean", "variance", "steps")]
        mean, variance, steps = before
        steps = steps + 1
        rate = (1 / steps).clamp(min=1 - self.decay)
        distance = losses - mean
        now = (mean + rate * distance, (1 - rate) * (variance + rate * distance.square()), steps)
        mean, variance, steps = (new.where(labelled, old) for new, old in zip(now, before, strict=True))
        if self.training:
            self.mean, self.variance, self.steps = mean, variance, steps
        return mean, variance, steps
