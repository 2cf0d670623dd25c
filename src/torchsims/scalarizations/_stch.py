"""STCH: smooth Tchebycheff scalarization."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar, final

from torch import Tensor

from torchsims import merit
from torchsims._statistics import EpochMean
from torchsims.scalarizations._ideal import FromIdeal, PerTask
from torchsims.scalarizations._preference import Preferences
from torchsims.spaces import Range, Space
from torchsims.transforms import Log

_LOG = Log()  # forms ratios before logarithms


@final
class STCH(FromIdeal):
    r"""Smooth Tchebycheff scalarization (Lin et al., ICML 2024).

    .. math::
        S = \mu \ln \sum_i \exp\left( \frac{w_i (L_i - z_i)}{\mu} \right)

    - :math:`\mu` (``mu``): the temperature; :class:`Chebyshev` is the limit :math:`\mu \to 0`.
    - :math:`w` (``weights``): positive, by task name or in the order of the losses; :math:`1/m` by default.
    - :math:`z` (``ideal``): the least value of every loss, alike; zero by default.

    This form depends on the units of the losses. With ``normalize`` it is what its authors use for several tasks, which
    does not:

    .. math::
        S = \sum_i \ln L_i \text{ at first, then} \qquad
        S = m \mu \ln \sum_i \exp\left( \frac1\mu \ln \frac{L_i}{n_i} \right)

    - :math:`n` (``nadir``, `m`): the mean losses of the last of ``warmup_epochs`` epochs; a task without a label in it
      has the mean of an earlier one, and a task that appears later its first loss. Call :meth:`end_epoch` after each.

    - ``preference``: :math:`p_i > 0` by task, 1 for those not named. Without ``normalize`` the weights are
      :math:`w_i = p_i / \sum_j p_j`; with it :math:`\ln p_i` is added to :math:`\ln(L_i / n_i)`, which is
      :func:`torchsims.merit.f0` with the nadir as its reference, and the sum of logarithms is weighted.
    - ``tasks``: the order of stacked losses; the sorted names of the preference by default. Losses by name need none.

    The authors' script counts epochs from zero and measures epoch 4, the fifth: ``warmup_epochs=5``. It also adds
    1e-20 inside the logarithm, which is left out here because it has a unit.

    Example:
        >>> import torch
        >>> STCH(mu=0.01)(torch.tensor([1.0, 3.0]))
        tensor(1.5000)
    """

    nadir: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"mu": Range(0.1, 10.0)}

    def __init__(
        self,
        mu: float = 1.0,
        *,
        weights: PerTask | None = None,
        ideal: PerTask | None = None,
        normalize: bool = False,
        warmup_epochs: int = 4,
        preference: Preferences | None = None,
        tasks: Sequence[str] | None = None,
    ) -> None:
        super().__init__(weights, ideal, tasks)
        if not 0 < mu < inf:
            raise ValueError(f"Parameter `mu` should be positive and finite. Found `mu = {mu}`.")
        if not warmup_epochs >= 0:
            raise ValueError(
                f"Parameter `warmup_epochs` should not be negative. Found `warmup_epochs = {warmup_epochs}`."
            )
        if normalize and not (weights is None and ideal is None):
            raise ValueError("Parameters `weights` and `ideal` should be None with `normalize`, which has neither.")
        if preference is not None and weights is not None:
            raise ValueError("Parameter `weights` should be None with `preference`, which gives the weights.")
        self.mu, self.warmup_epochs = mu, warmup_epochs
        self._prefer(preference)
        self.normalize = self.positive = normalize
        if normalize:
            self.epoch_mean = EpochMean()
            self._register_statistics("nadir")

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.normalize:
            return self._normalized(losses, labelled)
        distances = self._distances(losses, labelled)
        if self.preference is not None:  # in place of the usual weights, 1 / m
            distances = distances * labelled.sum(-1, keepdim=True) * self.preference.shares(losses, labelled)
        return merit.smooth_max(distances, tau=self.mu, labelled=labelled)

    def _normalized(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if self.epoch_mean.closed < self.warmup_epochs:
            if self.training:
                self.epoch_mean.add(losses, labelled)
            if self.preference is not None:
                return labelled.sum(-1) * (self.preference.shares(losses, labelled) * losses.log()).sum(-1)
            return losses.log().where(labelled, 0).sum(-1)
        nadir = self._start_at_first_loss("nadir", losses, labelled)
        if self.training:
            self.nadir = nadir
        d = _LOG.difference(losses, nadir.where(labelled, 1))
        if self.preference is not None:
            d = d + self.preference.like(losses).log()
        return labelled.sum(-1) * merit.smooth_max(d, tau=self.mu, labelled=labelled)

    def end_epoch(self) -> None:
        if self.normalize and self.epoch_mean.closed < self.warmup_epochs:
            mean = self.epoch_mean.close()
            self.nadir = mean.where(~mean.isnan(), self._get_statistic("nadir", mean))
