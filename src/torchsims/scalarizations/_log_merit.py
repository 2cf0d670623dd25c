"""LogMerit: SIMS with one copy of the model."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import ClassVar, final

from torch import Tensor

from torchsims import merit
from torchsims._statistics import FirstLosses
from torchsims.scalarizations._base import Scalarization
from torchsims.scalarizations._preference import Preferences
from torchsims.spaces import Range, Space
from torchsims.transforms import Log

_LOG = Log()  # forms ratios before logarithms


@final
class LogMerit(Scalarization):
    r"""SIMS with one copy: the losses are compared with a slow moving average of themselves.

    .. math::
        S = \frac{\tau \ln \sum_i \exp(d_i / \tau) + \rho \sum_i d_i}{1 + m \rho}, \qquad
        d_i = \ln \frac{L_i}{R_i}, \qquad R_i \leftarrow R_i \exp((1 - \beta) d_i)

    - :math:`\tau` (``tau``): the temperature; small values look only at the task that improves least.
    - :math:`\beta` (``decay``): how slowly the reference :math:`R`, a geometric moving average, follows.
    - :math:`\rho` (``augment``): a floor under every weight.
    - :math:`\kappa` (``floor``): the losses are :math:`L_i + \kappa L_i^0`, with the first loss :math:`L_i^0` of every
      task: those that can reach zero are then no longer chased; see :class:`~torchsims.transforms.FlooredLog`.
    - ``preference``: :math:`p_i > 0` by task, 1 for those not named. The objective is then :func:`torchsims.merit.f0`:
      :math:`\ln p_i` is added to :math:`d_i`, and the reference stays at the first losses, so that ``decay`` has no
      effect. More preference for a task never ends with a larger loss of it at the minimiser.
    - ``tasks``: the order of stacked losses; the sorted names of the preference by default. Losses by name need none.

    The current losses play the challenger's part in :func:`torchsims.merit.h` and the average plays the model's: one
    forward and one backward pass, and the objective is independent of the units of the losses. The reference is kept as
    a loss and not as a logarithm, so that a power of two cancels in :math:`L_i / R_i` without rounding.

    Example:
        >>> import torch
        >>> balance = LogMerit(tau=1.0)
        >>> losses = torch.tensor([0.01, 5e6], requires_grad=True)
        >>> balance(losses).backward()
        >>> losses.grad * losses.detach()  # the weights: both tasks count alike
        tensor([0.5000, 0.5000])
    """

    positive = True
    reference: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"tau": Range(0.1, 10.0)}

    def __init__(
        self,
        tau: float = 1.0,
        *,
        decay: float = 0.99,
        augment: float = 0.0,
        floor: float = 0.0,
        preference: Preferences | None = None,
        tasks: Sequence[str] | None = None,
    ) -> None:
        super().__init__(tasks)
        if not 0 < tau < inf:
            raise ValueError(f"Parameter `tau` should be positive and finite. Found `tau = {tau}`.")
        if not 0 <= decay < 1:
            raise ValueError(f"Parameter `decay` should be in [0, 1). Found `decay = {decay}`.")
        for name, value in (("augment", augment), ("floor", floor)):
            if not 0 <= value < inf:
                raise ValueError(f"Parameter `{name}` should not be negative. Found `{name} = {value}`.")
        if preference is not None and augment:
            raise ValueError(f"Parameter `augment` should be 0 with `preference`. Found `augment = {augment}`.")
        self.tau, self.decay, self.augment, self.floor = tau, decay, augment, floor
        self._prefer(preference)
        self._register_statistics("reference")
        self.first_losses = FirstLosses() if floor else None

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        d = self._compare(self._above_floor(losses, labelled), labelled)
        return merit.smooth_max(d, tau=self.tau, augment=self.augment, labelled=labelled)

    def closed_form(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        losses = self._above_floor(losses, labelled)
        d = self._compare(losses, labelled, _LOG.difference_of_values)
        value = merit.smooth_max(d, tau=self.tau, augment=self.augment, labelled=labelled)
        return value, merit.simplex(d, tau=self.tau, augment=self.augment, labelled=labelled) / losses

    def _above_floor(self, losses: Tensor, labelled: Tensor | None) -> Tensor:
        if self.first_losses is None:
            return losses
        floor: Tensor = self.floor * self.first_losses(losses, labelled)
        return losses + floor

    def _compare(
        self, losses: Tensor, labelled: Tensor | None, difference: Callable[[Tensor, Tensor], Tensor] = _LOG.difference
    ) -> Tensor:
        """Return d and, in training mode, move the reference."""
        reference = self._start_at_first_loss("reference", losses, labelled)
        d = difference(losses, reference if labelled is None else reference.where(labelled, 1))
        if self.preference is not None:
            d = d + self.preference.like(losses).log()
        if self.training:
            self._set_statistic("reference", self._next_reference(reference, d, labelled))
        return d

    def _next_reference(self, reference: Tensor, d: Tensor, labelled: Tensor | None) -> Tensor:
        if self.preference is not None:  # a point of the front is chosen relative to something that does not move
            return reference
        moved = reference * ((1 - self.decay) * d.detach()).exp()
        return moved if labelled is None else moved.where(labelled, reference)
