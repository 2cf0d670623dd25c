"""Two quadratics with known Pareto fronts, as in the bi-objective BBOB suite."""

from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.problems._base import Problem, non_dominated


class _Quadratics(Problem):
    r"""Two weighted squared distances to two centres, as in the bi-objective BBOB suite.

    .. math::
        L_i = \sum_j a_{ij}\, T(\theta_j - c_{ij})^2 + s, \qquad
        a_{ij} = 1 \text{ (sphere) or } \kappa^{j / (d - 1)} \text{ (ellipsoid)}

    Without oscillation :math:`T` is the identity and the Pareto set is known in closed form: for :math:`t \in [0, 1]`

    .. math::
        \theta_j(t) = \frac{(1 - t) a_{1j} c_{1j} + t a_{2j} c_{2j}}{(1 - t) a_{1j} + t a_{2j}}

    Args:
        conditioning: :math:`\kappa`, the ratio of the longest to the shortest squared axis of an ellipsoid.
        oscillation: whether :math:`T` is BBOB's oscillation transform, for the ellipsoids only; the front is then the
            non-dominated part of a grid on the box between the two centres, which contains the Pareto set.
        shift: :math:`s`, the value of every loss at its own centre; the paper uses 1.
    """

    dimension: ClassVar[int] = 2
    centres: ClassVar[tuple[tuple[float, float], tuple[float, float]]]
    ellipsoid: ClassVar[tuple[bool, bool]]

    def __init__(self, *, conditioning: float = 1e6, oscillation: bool = False, shift: float = 1.0) -> None:
        if not conditioning >= 1:
            raise ValueError(f"Parameter `conditioning` should be at least 1. Found `conditioning = {conditioning}`.")
        if not shift > 0:
            raise ValueError(f"Parameter `shift` should be positive. Found `shift = {shift}`.")
        self.conditioning, self.oscillation, self.shift = conditioning, oscillation, shift
        self._centres = torch.tensor(self.centres, dtype=torch.float64)  # (task, d)
        axes = torch.linspace(0, 1, self.dimension, dtype=torch.float64)
        self._long = torch.tensor(self.ellipsoid).unsqueeze(-1)  # (task, 1)
        self._axes = torch.where(self._long, conditioning**axes, 1.0)  # (task, d)

    @property
    def starts(self) -> Tensor:
        return torch.tensor([[-2.0, 2.0], [2.0, -2.0], [3.0, 1.0], [5.0, -5.0]], dtype=torch.float64)

    def losses(self, points: Tensor) -> Tensor:
        z = points.unsqueeze(-2) - self._centres.to(points)  # (..., task, d)
        if self.oscillation:
            z = torch.where(self._long.to(points.device), _oscillate(z), z)
        return (self._axes.to(points) * z**2).sum(-1) + self.shift

    def front(self) -> Tensor:
        if not self.oscillation:
            return self.losses(self.pareto_set(_KNOTS))
        even = torch.linspace(0, 1, 501, dtype=torch.float64)
        side = torch.cat([even, torch.sigmoid(_KNOTS[::8])])  # and dense at both centres
        first, second = self._centres
        box = torch.cartesian_prod(side, side) * (second - first) + first
        return non_dominated(self.losses(box))

    def pareto_set(self, logit: Tensor) -> Tensor:
        r"""Return the points :math:`\theta(t)`, `... x d`, of the Pareto set without oscillation.

        ``logit`` is :math:`\ln(t / (1 - t))`, `...`: with a large conditioning the interesting t are near 0 or 1.
        """
        first, second = self._centres
        towards_second = torch.sigmoid(logit.unsqueeze(-1) + (self._axes[1] / self._axes[0]).log())
        return torch.lerp(first, second, towards_second)

    def distance(self, losses: Tensor) -> Tensor:
        """Return the Euclidean distance, `...`, of ``losses``, `... x m`, to the front itself, not to its knots."""
        if self.oscillation:
            return super().distance(losses)
        flat = losses.reshape(-1, 1, self.tasks)
        fine = torch.linspace(0, 1, 33, dtype=torch.float64)
        knots = _KNOTS.expand(len(flat), -1)
        for _ in range(_ZOOMS):
            gap: Tensor = (self.losses(self.pareto_set(knots)) - flat).norm(dim=-1)  # (n, knot)
            best = gap.argmin(-1, keepdim=True)
            low = knots.gather(-1, (best - 1).clamp(min=0))
            high = knots.gather(-1, (best + 1).clamp(max=knots.shape[-1] - 1))
            knots = low + (high - low) * fine
        return gap.amin(-1).reshape(losses.shape[:-1])


_KNOTS = torch.linspace(-40, 40, 1601, dtype=torch.float64)  # logits of t; beyond them sigmoid is 0 or 1 to rounding
_ZOOMS = 9  # each narrows the bracket of the nearest t sixteenfold; 0.05 * 16^-9 is below rounding


def _oscillate(z: Tensor) -> Tensor:
    """Return BBOB's oscillation transform of ``z``, elementwise: smooth, increasing, zero at zero."""
    size = z.abs().clamp(min=torch.finfo(z.dtype).tiny).log()
    fast, slow = torch.where(z > 0, 10.0, 5.5), torch.where(z > 0, 7.9, 3.1)
    return z.sign() * (size + 0.049 * (torch.sin(fast * size) + torch.sin(slow * size))).exp()


@final
class F1(_Quadratics):
    """Two spheres: the losses are squared distances to (-3, -3) and (3, 3), plus one.

    Example:
        >>> F1().losses(torch.zeros(2))
        tensor([19., 19.])
    """

    centres = ((-3.0, -3.0), (3.0, 3.0))
    ellipsoid = (False, False)


@final
class TwoPoints(_Quadratics):
    """Two spheres whose centres are 1 apart: squared distances to (0, 0) and (1, 0), plus the floor ``shift``.

    With a small floor the front is concave in the logarithms of the losses: a weighted sum of them ends at one end.

    Example:
        >>> TwoPoints(shift=0.05).losses(torch.tensor([0.5, 0.0]))
        tensor([0.3000, 0.3000])
    """

    centres = ((0.0, 0.0), (1.0, 0.0))
    ellipsoid = (False, False)

    @property
    def starts(self) -> Tensor:
        return torch.tensor([[0.6, 0.2], [0.2, 0.6], [-1.0, 0.5], [1.5, -1.0]], dtype=torch.float64)


@final
class F2(_Quadratics):
    """A sphere at (-3, -2) and an ellipsoid at (3, 2), whose second axis is a thousand times shorter.

    Example:
        >>> F2().losses(torch.zeros(2))
        tensor([1.4000e+01, 4.0000e+06])
    """

    centres = ((-3.0, -2.0), (3.0, 2.0))
    ellipsoid = (False, True)


@final
class F11(_Quadratics):
    """Two ellipsoids, at (-3, -2) and (3, 2).

    Example:
        >>> F11(conditioning=100).losses(torch.zeros(2))
        tensor([410., 410.])
    """

    centres = ((-3.0, -2.0), (3.0, 2.0))
    ellipsoid = (True, True)
