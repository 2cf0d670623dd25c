"""The two-task problem of the paper's Fig. 1."""

from typing import ClassVar, Literal, final

import torch
from torch import Tensor

from torchsims.problems._base import Problem, non_dominated

_FLOOR = 5e-6  # the paper's floor under the absolute values whose logarithm is taken


@final
class Toy(Problem):
    r"""The two-task problem of the paper's Fig. 1, with two valleys that trap a descent of fixed weights.

    .. math::
        L_i = c_1 f_i + c_2 g_i + 30, \qquad
        c_1 = \max(\tanh(\theta_2 / 2), 0), \quad c_2 = \max(\tanh(-\theta_2 / 2), 0)

    .. math::
        f_1 &= \ln \max(|(-\theta_1 - 7) / 2 - \tanh(-\theta_2)|, 5 \cdot 10^{-6}) + 6 \\
        f_2 &= \ln \max(|(-\theta_1 + 3) / 2 \mp \tanh(-\theta_2) + 2|, 5 \cdot 10^{-6}) + 6 \\
        g_{1,2} &= ((-\theta_1 \pm 7)^2 + (-\theta_2 - 8)^2 / 10) / 10 - 20

    The paper prints :math:`-\tanh` in :math:`f_2` (``variant="paper"``), the problem it cites has :math:`+\tanh`
    (``"cited"``). The maxima are clamps: :math:`\theta_2 = 0` is a kink of all of them, where a ``relu`` has gradient
    zero and a run from (0, 0) never moves. The front is that of the paper, the non-dominated points of an 800 x 800
    grid on :math:`[-12, 12]^2`.

    Example:
        >>> Toy().losses(torch.tensor([[0.0, 0.0], [-8.5, 7.5]]))
        tensor([[30.0000, 30.0000],
                [36.5524, 38.1600]])
    """

    dimension: ClassVar[int] = 2

    def __init__(self, variant: Literal["paper", "cited"] = "paper") -> None:
        if variant not in ("paper", "cited"):
            raise ValueError(f'Parameter `variant` should be "paper" or "cited". Found `variant = {variant!r}`.')
        self.variant = variant
        self._sign = -1.0 if variant == "paper" else 1.0

    @property
    def starts(self) -> Tensor:
        points = [[-8.5, 7.5], [0.0, 0.0], [9.0, 9.0], [-7.5, -0.5], [9.0, -1.0]]
        return torch.tensor(points, dtype=torch.float64)

    def losses(self, points: Tensor) -> Tensor:
        x, y = points.unbind(-1)
        bend = torch.tanh(-y)
        f1 = (0.5 * (-x - 7) - bend).abs().clamp(min=_FLOOR).log() + 6
        f2 = (0.5 * (-x + 3) + self._sign * bend + 2).abs().clamp(min=_FLOOR).log() + 6
        bowl = 0.1 * (-y - 8) ** 2
        g1 = ((-x + 7) ** 2 + bowl) / 10 - 20
        g2 = ((-x - 7) ** 2 + bowl) / 10 - 20
        c1 = torch.tanh(0.5 * y).clamp(min=0)
        c2 = torch.tanh(-0.5 * y).clamp(min=0)
        return torch.stack([c1 * f1 + c2 * g1, c1 * f2 + c2 * g2], -1) + 30

    def front(self) -> Tensor:
        axis = torch.linspace(-12, 12, 800, dtype=torch.float64)
        return non_dominated(self.losses(torch.cartesian_prod(axis, axis)))
