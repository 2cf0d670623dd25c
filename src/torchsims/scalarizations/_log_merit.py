"""LogMerit: SIMS with one copy of the model."""

from typing import final

from torch import Tensor

from torchsims import merit
from torchsims.scalarizations._base import Scalarization
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

    def __init__(self, tau: float = 1.0, *, decay: float = 0.99, augment: float = 0.0) -> None:
        super().__init__()
        if not tau > 0:
            raise ValueError(f"Parameter `tau` should be positive. Found `tau = {tau}`.")
        if not 0 <= decay < 1:
            raise ValueError(f"Parameter `decay` should be in [0, 1). Found `decay = {decay}`.")
        if not augment >= 0:
            raise ValueError(f"Parameter `augment` should not be negative. Found `augment = {augment}`.")
        self.tau, self.decay, self.augment = tau, decay, augment
        self._register_statistics("reference")

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        reference = self._start_at_first_loss("reference", losses, labelled)
        d = _LOG.difference(losses, reference.where(labelled, 1))
        if self.training:
            step = ((1 - self.decay) * d.detach()).exp()
            self.reference = (reference * step).where(labelled, reference)
        return merit.smooth_max(d, tau=self.tau, augment=self.augment, labelled=labelled)
