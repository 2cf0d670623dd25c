"""GO4Align: group optimization for multi-task alignment."""

from collections.abc import Mapping
from math import inf
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import HeldWeights
from torchsims.spaces import Range, Space


@final
class GO4Align(HeldWeights):
    r"""Group optimization for multi-task alignment (Shen et al., NeurIPS 2024): one weight per group of tasks.

    .. math::
        S = \sum_i w_i L_i, \qquad w_i = \text{mean of } \gamma_j \text{ over the group of } i, \qquad
        \gamma_i = p_i \frac{\sum_j L_j}{L_i}, \qquad p = \operatorname{softmax}(-\eta R)

    - :math:`\gamma`, :math:`w`: held constant.
    - :math:`R_i` (``risk``, `m`): the sum of all losses of the task so far, this step's included. The authors multiply
      :math:`p` by :math:`e^{-\eta L}` in every step, which is the same and can underflow.
    - :math:`\eta` (``step_size``): how fast tasks with large losses lose weight.
    - Groups (``groups``): at most so many, of like :math:`\gamma`, with the least sum of squared distances to their
      means. The authors run k-means from random starts; numbers on a line have an exact solution, which needs no seed
      and is the same on every rank. With one group all weights are equal: :class:`EW` with another length.

    The exponent, and with it the weights, depend on the units of the losses: where :math:`\eta L_i` is large, the task
    is dropped within a few steps. Where two groupings are about equally good, rounding decides between them.

    Example:
        >>> losses = torch.tensor([1.0, 1.1, 100.0], requires_grad=True)
        >>> GO4Align(groups=2, step_size=0.0)(losses).backward()
        >>> losses.grad
        tensor([32.4864, 32.4864,  0.3403])
    """

    positive = True
    risk: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"step_size": Range(1e-5, 1e-1)}

    def __init__(self, groups: int = 2, *, step_size: float = 1e-4) -> None:
        super().__init__()
        if not (isinstance(groups, int) and groups > 0):
            raise ValueError(f"Parameter `groups` should be a positive integer. Found `groups = {groups}`.")
        if not 0 <= step_size < inf:
            raise ValueError(
                f"Parameter `step_size` should be finite and not negative. Found `step_size = {step_size}`."
            )
        self.groups, self.step_size = groups, step_size
        self._register_statistics("risk")

    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        now = losses.where(labelled, 0)
        risk = self._get_statistic("risk", losses, 0.0) + now
        if self.training:
            self.risk = risk
        p = torch.softmax((-self.step_size * risk).where(labelled, -torch.inf), -1)
        gamma = (p * now.sum(-1, keepdim=True) / losses).where(labelled, 0)
        return _group_means(gamma, labelled, self.groups).where(labelled, 0)


def _group_means(values: Tensor, labelled: Tensor, groups: int) -> Tensor:
    """Return the mean of the group of every value, `... x m`, for the best grouping of those that are labelled."""
    order = values.where(labelled, torch.inf).argsort(-1)
    x, n = values.gather(-1, order), labelled.gather(-1, order).to(values.dtype)
    place = torch.arange(x.shape[-1], device=x.device)
    starts = _best_starts(x, n, groups)
    group = (starts.unsqueeze(-1) <= place).sum(-2)  # (..., task), of sorted values
    same = (group.unsqueeze(-1) == group.unsqueeze(-2)) * n.unsqueeze(-2)
    means = (same * x.unsqueeze(-2)).sum(-1) / same.sum(-1).clamp(min=1)
    return means.gather(-1, order.argsort(-1))


def _best_starts(x: Tensor, n: Tensor, groups: int) -> Tensor:
    """Return where all groups but the first start in sorted values, `... x (groups - 1)`, by dynamic programming.

    The cost of a group is the sum of squared distances to its mean. A group may be empty.

    Args:
        x: the values in order, `... x m`.
        n: how often each counts, `... x m`.
        groups: the number of groups.
    """
    center = (n * x).sum(-1, keepdim=True) / n.sum(-1, keepdim=True).clamp(min=1)
    moments = torch.stack([n, n * (x - center), n * (x - center).square()])
    sums = torch.nn.functional.pad(moments.cumsum(-1), (1, 0))  # (3, ..., m + 1): of the values before each place
    count, first, second = sums.unsqueeze(-2) - sums.unsqueeze(-1)  # (..., start, end) each
    cost = (second - first.square() / count.clamp(min=1)).clamp(min=0)
    place = torch.arange(cost.shape[-1], device=x.device)
    cost = cost.where(place[:, None] <= place, torch.inf)
    best, choices = cost[..., 0, :], []
    for _ in range(groups - 1):
        best, choice = (best.unsqueeze(-1) + cost).min(-2)
        choices.append(choice)
    end = torch.full_like(x[..., :1], x.shape[-1], dtype=torch.int64)
    starts = [end[..., :0]]
    for choice in reversed(choices):
        end = choice.gather(-1, end)
        starts.append(end)
    return torch.cat(starts, -1)
