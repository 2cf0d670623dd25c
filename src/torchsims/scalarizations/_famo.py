"""FAMO: fast adaptive multitask optimization."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import Losses, Scalarization
from torchsims.spaces import Range, Space
from torchsims.transforms import Log

# Adam's usual constants; epsilon only matters once all tasks improve alike to eight digits.
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
_LOG = Log()  # forms ratios before logarithms


@final
class FAMO(Scalarization):
    r"""Fast adaptive multitask optimization (Liu et al., NeurIPS 2023): equal rates of improvement.

    .. math::
        S = \frac1c \sum_i z_i \ln L_i, \qquad z = \operatorname{softmax}(w), \qquad
        c = \sum_i \frac{z_i}{L_i} \text{ held constant}

    After the step the losses :math:`L'` of the same batch are observed, and :math:`w` takes a step of Adam along

    .. math::
        g = J^\top \delta + \gamma w, \qquad J = \frac{\partial z}{\partial w}, \qquad \delta_i = \ln \frac{L_i}{L'_i}

    - :math:`w` (``w``, `m`): starts at zero; moves only in steps in which a task has a label.
    - :math:`\gamma` (``gamma``): weight decay of Adam.
    - ``lr``: learning rate of Adam.

    Units of the losses change the length of a step through :math:`c`, and neither its direction nor :math:`w`. The
    ratio in :math:`\delta` is formed before the logarithm, so that a power of two changes no bit of :math:`w`.

    Example:
        >>> method = FAMO()
        >>> objective = method(torch.tensor([1.0, 1e6]))  # backward, a step of the model's optimizer, and then
        >>> method.observe(torch.tensor([0.5, 1e6]))  # the first task improved: less weight for it
        >>> method.w
        tensor([-0.0250,  0.0250])
    """

    positive = True
    observes: ClassVar[bool] = True
    w: Tensor
    before: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"lr": Range(0.001, 0.1)}

    def __init__(self, *, gamma: float = 1e-3, lr: float = 0.025) -> None:
        super().__init__()
        if not gamma >= 0:
            raise ValueError(f"Parameter `gamma` should not be negative. Found `gamma = {gamma}`.")
        if not lr > 0:
            raise ValueError(f"Parameter `lr` should be positive. Found `lr = {lr}`.")
        self.gamma, self.lr = gamma, lr
        self._register_statistics("w", "before", "steps", "moment1", "moment2")

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        z, c = self._weights(losses.detach(), labelled)
        return (z * losses.log()).sum(-1) / c

    def closed_form(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        z, c = self._weights(losses, labelled)
        return (z * losses.log()).sum(-1) / c, z / losses / c.unsqueeze(-1)

    def _weights(self, losses: Tensor, labelled: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return z and c and, in training mode, keep the losses for :meth:`observe`."""
        if self.training:
            self.before = losses if labelled is None else losses.where(labelled, torch.nan)
        z = _softmax(self._get_statistic("w", losses, 0.0), labelled)
        return z, (z / losses).sum(-1)

    def observe(self, losses: Losses, labelled: Tensor | None = None) -> None:
        after, labelled = self._read(losses, labelled)
        if not self.training:
            return
        if self.before.numel() == 0:
            raise RuntimeError("Method `observe` should follow a training step. Found no losses of one.")
        before = self._get_statistic("before", after)
        labelled = labelled & ~before.isnan()
        w = self._get_statistic("w", after, 0.0)
        z = _softmax(w, labelled)
        delta = _LOG.difference(before, after.detach()).where(labelled, 0)
        gradient = z * (delta - (z * delta).sum(-1, keepdim=True)) + self.gamma * w
        self._adam(w, gradient, labelled)

    def _adam(self, w: Tensor, gradient: Tensor, labelled: Tensor) -> None:
        """Take one step of Adam for the labelled tasks, each with its own count of steps."""
        steps, moment1, moment2 = (self._get_statistic(name, w, 0.0) for name in ("steps", "moment1", "moment2"))
        t = steps + 1
        m = torch.lerp(gradient, moment1, _BETA1)
        v = torch.lerp(gradient.square(), moment2, _BETA2)
        step = m / (1 - _BETA1**t) / ((v / (1 - _BETA2**t)).sqrt() + _EPSILON)
        self.w = (w - self.lr * step).where(labelled, w)
        self.steps = t.where(labelled, steps)
        self.moment1, self.moment2 = m.where(labelled, moment1), v.where(labelled, moment2)


def _softmax(w: Tensor, labelled: Tensor | None) -> Tensor:
    return torch.softmax(w if labelled is None else w.where(labelled, -torch.inf), -1)
