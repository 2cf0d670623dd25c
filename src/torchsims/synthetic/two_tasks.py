r"""Directions of gradient-level methods for two tasks, for many runs at once and in closed form.

With two tasks none of these methods needs a solver. Each function takes the gradients of the tasks, `runs x 2 x d`, and
returns the directions to descend along, `runs x d`: those of :mod:`torchsims.aggregations`, as the tests verify.
Nothing here branches on values, so that all of it compiles.
"""

import math

import torch
from torch import Tensor

_NORM_EPS = 1e-4  # that of `aggregations.CAGrad`: norms below this share of all gradients count as zero


def mgda(gradients: Tensor) -> Tensor:
    r"""Return the shortest vector between the two gradients.

    .. math::
        d = g_2 + w (g_1 - g_2), \qquad
        w = \Big[ \frac{- g_2^\top (g_1 - g_2)}{\lVert g_1 - g_2 \rVert^2} \Big]_0^1
    """
    first, second = gradients.unbind(-2)
    edge = first - second
    w = _ratio(-_dot(second, edge), _dot(edge, edge)).clamp(0, 1)
    return second + w * edge


def pcgrad(gradients: Tensor) -> Tensor:
    r"""Return the sum of the gradients, each without its component against the other, in any order.

    .. math::
        d = g_1 + g_2 - \min(g_1^\top g_2, 0)
        \Big( \frac{g_1}{\lVert g_1 \rVert^2} + \frac{g_2}{\lVert g_2 \rVert^2} \Big)
    """
    first, second = gradients.unbind(-2)
    conflict = _dot(first, second).clamp(max=0)
    first_less = first - _ratio(conflict, _dot(second, second)) * second
    return first_less + second - _ratio(conflict, _dot(first, first)) * first


def cagrad(gradients: Tensor, c: float = 0.5) -> Tensor:
    r"""Return the best direction for the worse task within a ball around the mean :math:`g_0`.

    .. math::
        d = g_0 + s \frac{g_w}{\lVert g_w \rVert}, \qquad s = c \lVert g_0 \rVert, \qquad
        w = \arg\min_{w \in [0, 1]} g_0^\top g_w + s \lVert g_w \rVert, \qquad g_w = g_2 + w e, \quad e = g_1 - g_2

    The function of :math:`w` is convex. With :math:`v` the point of the line of :math:`g_w` that is nearest to zero, at
    :math:`w_v`, and :math:`t = (w - w_v) \lVert e \rVert` the way along it from there, it is
    :math:`b t + s \sqrt{t^2 + \lVert v \rVert^2}` plus a constant, :math:`b = g_0^\top e / \lVert e \rVert`. Its slope
    is zero at

    .. math::
        t = - \frac{b \lVert v \rVert}{\sqrt{s^2 - b^2}}

    and nowhere if :math:`\lvert b \rvert \ge s`; then it falls all the way against the sign of :math:`b`.
    """
    first, second = gradients.unbind(-2)
    mean, edge = (first + second) / 2, first - second
    s, length = c * _norm(mean), _norm(edge)
    nearest = _ratio(-_dot(second, edge), length**2)  # w at v
    b = _ratio(_dot(mean, edge), length)
    t = -b * _norm(second + nearest * edge) * (s**2 - b**2).clamp(min=0).rsqrt()
    w = (nearest + _ratio(t, length)).clamp(0, 1)
    w = w.where(b.abs() < s, (b < 0).to(w))
    inside = second + w * edge
    small = _norm(inside) < _NORM_EPS * _norm(gradients.flatten(-2))  # nothing serves both tasks
    return (mean + _ratio(s, _norm(inside)) * inside).where(~small, 0)


def nash_mtl(gradients: Tensor, max_norm: float = 1.0) -> Tensor:
    r"""Return the Nash bargaining solution, clipped to the norm ``max_norm``.

    It solves the equation of :func:`fairgrad`, whose direction is always :math:`\sqrt 2` long. Dividing the Gramian by
    its norm, as the iterative solver does, does not change the closed form.
    """
    direction = fairgrad(gradients)
    return direction * (max_norm / _norm(direction).clamp(min=max_norm))


def fairgrad(gradients: Tensor) -> Tensor:
    r"""Return the direction of proportional fairness, :math:`\alpha = 1`.

    .. math::
        d = a_1 g_1 + a_2 g_2, \qquad a_i \, g_i^\top d = 1

    Hence :math:`a_1 \lVert g_1 \rVert = a_2 \lVert g_2 \rVert = \sigma` with :math:`\sigma^2 (1 + \cos) = 1`: with the
    unit vectors :math:`u_i` of the gradients, :math:`d = \sqrt 2 \, (u_1 + u_2) / \lVert u_1 + u_2 \rVert`, which no
    positive factor of a loss changes. With opposite gradients there is no solution, and the direction is zero; with one
    gradient of zero, the direction is that of the other gradient.
    """
    both = _ratio(gradients, _norm(gradients)).sum(-2)
    return _ratio(math.sqrt(2) * both, _norm(both))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)


def _norm(a: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(a, dim=-1, keepdim=True)
    return norm


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, and zero where b is zero."""
    return (a / b.where(b != 0, 1)).where(b != 0, 0)
