r"""The equation of Nash-MTL and FairGrad, solved to convergence.

.. math::
    G w = w^{-p}, \qquad w > 0, \qquad G_{ij} = g_i^\top g_j

Its solution is the minimum of the strictly convex :math:`\frac12 w^\top G w - \sum_i w_i^{1-p} / (1-p)`, with the
logarithm for :math:`p = 1`; so it is unique, and does not depend on where an iteration starts.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_Array = NDArray[np.float64]
_ITERATIONS = 1000  # for p = 1, at most 53 of 20 000 random Gramians, of lengths up to 24 orders of magnitude apart
_ROUNDING = float(np.finfo(np.float64).eps)


def fair_weights(gramian: Tensor, p: float = 1.0) -> Tensor:
    r"""Return the weights, `k`, in double precision on the host; zero where a gradient is zero, whatever its weight.

    The matrix is that of the cosines, :math:`C_{ij} = G_{ij} / n_i n_j` with :math:`n_i = \lVert g_i \rVert`, with its
    unit of rounding added to its diagonal, and what is missing if rounding made an eigenvalue negative. Where all tasks
    can descend this changes nothing beyond rounding. Where they cannot, because a sum of gradients with positive
    weights is zero, the equation itself has no solution; the weights then stay finite, and the direction goes to zero.

    Args:
        gramian: the inner products of the gradients, `k x k`.
        p: the exponent, from 0.1 to 10.
    """
    unit = torch.finfo(gramian.dtype).eps
    host = gramian.detach().to("cpu", torch.float64).numpy()
    if not np.isfinite(host).all():
        return torch.full((len(host),), torch.nan, dtype=torch.float64)
    norms = np.sqrt(host.diagonal().clip(min=0))
    (known,) = norms.nonzero()
    weights = np.zeros(len(host))
    if len(known):
        weights[known] = _solve(host[np.ix_(known, known)], norms[known], p, unit)
    return torch.from_numpy(weights)


def _solve(gramian: _Array, n: _Array, p: float, unit: float) -> _Array:
    """Solve the equation in :math:`w = x n^{-2 / (1 + p)}`, for which a task alone has x = 1."""
    cosines = gramian / n / n[:, None]
    unit += 4 * len(n) * _ROUNDING  # of what is computed here
    cosines.flat[:: len(n) + 1] = 1 + unit + max(0.0, -np.linalg.eigvalsh(cosines)[0])
    # For p = 1 the units of the losses are gone from here on.
    q = (n / np.exp(np.log(n).mean())) ** ((p - 1) / (p + 1))
    return _newton(cosines, q, p) * n ** (-2 / (1 + p))


def _newton(cosines: _Array, q: _Array, p: float) -> _Array:
    r"""Return the x > 0 with :math:`C (q x) = q x^{-p}`, by Newton's method, damped.

    Where a component shrinks by the part :math:`t r` at most, no second derivative along the step exceeds
    :math:`(1 - t r)^{-(p+1)}` times its value at the start: t is the minimum of the bound that follows, and every step
    descends. It starts at the best multiple of equal x and ends when the equation holds to rounding, relative to the
    terms that are added in it.
    """
    ratio = max(float(q @ cosines @ q / (q @ q)), _ROUNDING)
    x: _Array = np.full(len(q), ratio ** (-1 / (1 + p)))
    sizes = np.abs(cosines)
    for _ in range(_ITERATIONS):
        v, push = q * x, q * x**-p
        residual = push - cosines @ v
        error = float((np.abs(residual) / (sizes @ v + push)).max())
        hessian = cosines + np.diag(p * push / v)
        step = np.linalg.solve(hessian, residual) / v  # relative to x
        r = max(0.0, -float(step.min()))
        shrunk = (1 + p * r) ** (-1 / p)  # 1 - t r
        t = (1 - shrunk) / r if r > 1e-6 else 1.0
        x = x * np.maximum(1 + t * step, min(shrunk, 0.5))
        # Convergence is quadratic: after a step of 1e-9 the next one would be rounding.
        if error <= 4 * len(q) * _ROUNDING or np.abs(step).max() < 1e-9:
            return x
    if error <= 1e-8:  # for lengths that are 1e20 apart rounding can keep it from more
        return x
    raise ArithmeticError(
        f"The equation of the weights should be solved in {_ITERATIONS} iterations. Found an error of {error}."
    )
