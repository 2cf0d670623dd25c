"""GradNorm: weights for equal training rates."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from torchsims._statistics import EpochMean
from torchsims.aggregations._base import WeightedAggregation
from torchsims.spaces import Range, Space


@final
class GradNorm(WeightedAggregation):
    r"""Weights that let all tasks train at the same rate, learned together with the model (Chen et al., ICML 2018).

    .. math::
        d = \sum_i w_i g_i, \qquad w = m \operatorname{softmax}(p), \qquad
        \min_p \sum_i \Big| w_i \lVert g_i \rVert - \bar n \, r_i^\alpha \Big|

    - :math:`p` (``logits``, `m`): a parameter, zero at the start; its optimizer is the stepper's. The paper learns
      the weights and divides them by their mean; the softmax does that too and keeps them positive.
    - :math:`\bar n`: the mean of :math:`w_i \lVert g_i \rVert`, held constant.
    - :math:`r_i`: the inverse training rate :math:`(L_i / L_i^0)` divided by its mean, held constant.
    - :math:`L_i^0`: the mean loss of the first epoch; until it ends, that of the epoch so far. The paper takes the
      first loss, which is one noisy number.
    - :math:`\alpha` (``alpha``): how strongly slow tasks are pulled, :math:`\alpha \ge 0`.

    The norms are those over all shared parameters; the paper takes the last shared layer. Losses must be positive.
    The order of ``tasks`` is that of the rows.

    Example:
        >>> method = GradNorm(["seg", "depth"])
        >>> method(torch.tensor([[4.0, 0.0], [0.0, 1.0]]))
        tensor([4., 1.])
        >>> method.logits.grad  # descends: less weight for the first
        tensor([ 2.5000, -2.5000])
    """

    positive: bool = True
    initial: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"alpha": Range(0.1, 3.0, log=False)}

    def __init__(
        self,
        tasks: Sequence[str],
        alpha: float = 1.5,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(tasks)
        if not alpha >= 0:
            raise ValueError(f"Parameter `alpha` should not be negative. Found `alpha = {alpha}`.")
        self.alpha = alpha
        self.logits = nn.Parameter(torch.zeros(len(tasks), device=device, dtype=dtype))
        self.epoch_mean = EpochMean()
        self._register_statistics("initial")

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.training:
            everywhere = torch.ones_like(labelled, dtype=losses.dtype).masked_scatter(labelled, losses)
            self.epoch_mean.add(everywhere, labelled)
        rate = losses / self._first_losses(losses, labelled)
        norms = gramian.diagonal().clamp(min=0).sqrt()
        with torch.enable_grad():
            p = self.logits.to(gramian)[labelled]
            w = len(p) * torch.softmax(p, 0)
            target = (w * norms).detach().mean() * (rate / rate.mean()) ** self.alpha
            distance = (w * norms - target).abs().sum()
        if self.training:
            (self.logits.grad,) = torch.autograd.grad(distance, self.logits)
        return w.detach()

    def end_epoch(self) -> None:
        mean = self.epoch_mean.close()
        first = self._get_statistic("initial", mean)
        self.initial = mean.where(first.isnan(), first)

    def _first_losses(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the mean losses of the first epoch, or of its steps so far, `k`."""
        so_far = self.epoch_mean.total / self.epoch_mean.count
        so_far = so_far.to(losses) if so_far.numel() else losses.new_full(labelled.shape, torch.nan)
        first = self._get_statistic("initial", so_far)
        first = first.where(~first.isnan(), so_far)[labelled]
        return first.where(~first.isnan(), losses)
