"""RLW: random loss weights."""

from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import HeldWeights


@final
class RLW(HeldWeights):
    r"""Random loss weights (Lin et al., TMLR 2022), drawn anew in every step.

    .. math::
        S = \sum_i w_i L_i, \qquad w = \operatorname{softmax}(g), \qquad g_i \sim \mathcal{N}(0, 1)

    - :math:`g`: drawn from a generator of its own (``seed``), whose state is in the ``state_dict``. PyTorch's global
      generator is not touched, and the draw is the same on every device and in every precision.

    Runs along the leading dimensions share the draw, as separate runs with the same seed would. In evaluation mode the
    weights are those of the next step.

    Example:
        >>> losses = torch.ones(3, requires_grad=True)
        >>> RLW(seed=1)(losses).backward()
        >>> losses.grad.sum()
        tensor(1.)
    """

    linear: ClassVar[bool] = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        # Not a buffer: `.to(device)` would move it, and reading it back would wait for the device.
        self._random = torch.Generator().manual_seed(seed).get_state()

    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        generator = torch.Generator()
        generator.set_state(self._random)
        g = torch.randn(losses.shape[-1], generator=generator, dtype=torch.float64)
        if self.training:
            self._random = generator.get_state()
        g = g.to(losses.dtype).to(losses.device, non_blocking=True)
        return torch.softmax(g.where(labelled, -torch.inf), -1)

    def get_extra_state(self) -> Tensor:
        return self._random

    def set_extra_state(self, state: Tensor) -> None:
        self._random = state.cpu()
