"""LDC-MTL: loss discrepancy control."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from torchsims.scalarizations._base import Scalarization
from torchsims.spaces import Range, Space
from torchsims.transforms import Log

_LOG = Log()  # forms ratios before logarithms
_NORMALIZERS = ("log", "ratio")
_PAIRS = ("neighbours", "all")


@final
class LDCMTL(Scalarization):
    r"""Loss discrepancy control (Xiao et al., arXiv 2502.08585): a penalty on weighted losses that differ.

    .. math::
        S = \frac{\sum_i w_i l_i}{\sum_i w_i} + \lambda \sum_{(i, j)} | w_i l_i - w_j l_j |, \qquad
        w_i = \operatorname{sigmoid}(\max(\theta_i, 0)), \qquad l_i = \ln \frac{L_i}{L_i^0}

    - :math:`\theta` (``logits``, `m`): a parameter in the order of ``tasks``, learned together with the model. It is
      ``start`` at first, a tensor `... x m` for independent runs. Give it to the optimizer:
      ``Adam([*model.parameters(), *method.parameters()])``.
    - :math:`L_i^0` (``first``): the first loss of the task.
    - :math:`l_i` (``normalize``): ``"log"``, as above, is the authors' choice for QM9; ``"ratio"``,
      :math:`l_i = L_i \min_j L_j^0 / L_i^0`, that for NYUv2.
    - :math:`\lambda` (``penalty``): 0.05 in the authors' scripts.
    - :math:`(i, j)` (``pairs``): ``"neighbours"``, as in the paper, are the tasks that follow each other in ``tasks``:
      with three tasks or more the objective depends on their order. ``"all"`` pairs do not; their sum has the factor
      :math:`2 / m`, so that it has as much weight as that of the :math:`m - 1` neighbours.

    The paper has two levels; this is the one-level form that its scripts train. Where they differ from each other or
    from this: their :math:`\theta` starts at random between 0.2 and 1, here at the mean of that, so that no task is
    ahead; the one for NYUv2 computes :math:`\theta` by a small network from features, which a function of the losses
    cannot; the one for QM9 takes :math:`L^0` anew in every epoch, and holds :math:`\sum_i w_i` constant.

    The weights :math:`w` stay between 1/2 and 1, and one that has reached 1/2 stays there. With many tasks, from 16
    on at the start, the penalty outweighs the first term (:math:`2 \lambda > 1 / \sum_i w_i`): a task that is ahead of
    both neighbours is then pushed back. Units change nothing; with ``"ratio"`` they change the length of a step.

    Example:
        >>> method = LDCMTL(["seg", "depth"])
        >>> start = method({"seg": torch.tensor(1.0), "depth": torch.tensor(1e6)})
        >>> method({"seg": torch.tensor(0.5), "depth": torch.tensor(5e5)})  # both halved: no penalty
        tensor(-0.6931, grad_fn=<AddBackward0>)
    """

    positive = True
    first: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"penalty": Range(0.005, 0.5)}

    def __init__(
        self,
        tasks: Sequence[str],
        *,
        penalty: float = 0.05,
        normalize: Literal["log", "ratio"] = "log",
        pairs: Literal["neighbours", "all"] = "neighbours",
        start: float | Tensor = 0.6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(tasks)
        if not 0 <= penalty < inf:
            raise ValueError(f"Parameter `penalty` should be finite and not negative. Found `penalty = {penalty}`.")
        if normalize not in _NORMALIZERS:
            raise ValueError(
                f"Parameter `normalize` should be one of {_NORMALIZERS}. Found `normalize = {normalize!r}`."
            )
        if pairs not in _PAIRS:
            raise ValueError(f"Parameter `pairs` should be one of {_PAIRS}. Found `pairs = {pairs!r}`.")
        self.penalty, self.normalize, self.pairs = penalty, normalize, pairs
        theta = torch.zeros(len(tasks), device=device, dtype=dtype)
        self.logits = nn.Parameter(theta + torch.as_tensor(start).to(theta))
        self._register_statistics("first")

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        w = self.logits.to(losses.dtype).relu().sigmoid().where(labelled, 0)
        weighted = w * self._normalized(losses, labelled)
        distances = (weighted.unsqueeze(-1) - weighted.unsqueeze(-2)).abs()  # (..., task, task)
        penalty = (distances * self._paired(labelled)).sum((-2, -1))
        if self.pairs == "all":
            penalty = penalty * 2 / labelled.sum(-1)
        return weighted.sum(-1) / w.sum(-1) + self.penalty * penalty

    def _normalized(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the losses in units of the first ones, zero for unlabelled tasks, `... x m`."""
        first = self._start_at_first_loss("first", losses, labelled)
        if self.training:
            self.first = first
        known = first.where(labelled, 1)
        if self.normalize == "log":
            return _LOG.difference(losses, known).where(labelled, 0)
        least = first.where(labelled, torch.inf).amin(-1, keepdim=True)
        return (losses / known * least).where(labelled, 0)

    def _paired(self, labelled: Tensor) -> Tensor:
        """Return which tasks are paired, each pair once, as if unlabelled tasks did not exist, `... x m x m`."""
        place = labelled.cumsum(-1)
        ahead = place.unsqueeze(-1) - place.unsqueeze(-2)
        chosen = ahead == 1 if self.pairs == "neighbours" else ahead > 0
        return chosen & labelled.unsqueeze(-1) & labelled.unsqueeze(-2)
