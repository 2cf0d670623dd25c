r"""Quadratic programs over non-negative numbers that share one matrix, all solved at once and to convergence.

.. math::
    x = \arg\min_{x \ge 0} \tfrac12 x^\top C x + q^\top x
    \quad \Longleftrightarrow \quad x \ge 0, \quad y = C x + q \ge 0, \quad x_i y_i = 0

UPGrad, CAGrad and MGDA are made of these. Once it is known which :math:`x_i` are free, that is, not held at zero, they
are the solution of a linear system: what is looked for is a set per program.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
ROUNDING = float(np.finfo(np.float64).eps)
_PATIENCE = 3  # exchanges in a row that may leave as much wrong as before
_STEPS = 50  # per task; at most 6 in 31 000 random cases of every kind, with up to 26 tasks


def to_host(gramian: Tensor) -> Array:
    """Return the Gramian in double precision, symmetric, which a matrix product is to rounding only."""
    host = gramian.detach().to("cpu", torch.float64).numpy()
    symmetric: Array = (host + host.T) / 2
    return symmetric


def cosines(gramian: Array, n: Array, rounding: float) -> tuple[Array, float]:
    r"""Return :math:`C_{ij} = G_{ij} / n_i n_j` with ones on its diagonal, `k x k`, and its smallest eigenvalue.

    Where gradients depend on each other this is zero up to rounding. What it lacks is added to the diagonal.
    """
    c = gramian / n / n[:, None]
    c.flat[:: len(n) + 1] = 1
    lowest = float(np.linalg.eigvalsh(c)[0])
    c.flat[:: len(n) + 1] += max(0.0, rounding - lowest)
    return c, max(lowest, rounding)


def rounding_of(gramian: Tensor) -> float:
    """Return the rounding of a Gramian, and that of the computation with its cosines, relative to its diagonal."""
    return torch.finfo(gramian.dtype).eps + 4 * len(gramian) * ROUNDING


def minimize(c: Array, q: Array, lowest: float, near: Array | None = None) -> Array:
    """Return the minima, `b x k`, of `b` programs.

    Args:
        c: the matrix, `k x k`, with a diagonal near one.
        q: the linear terms, `b x k`.
        lowest: the smallest eigenvalue of `c`, above zero.
        near: what to start at, `b x k`; zero by default.
    """
    # A solution that is exact for a matrix that differs by rounding has a y that is wrong by so much of |x| + |q|.
    tolerance = 4 * len(c) * ROUNDING / np.sqrt(lowest)
    x, left = _exchange(c, q, np.zeros_like(q) if near is None else near, tolerance)
    if len(left):
        x[left] = _descend(c, q[left], x[left], tolerance)
    return x


def _exchange(c: Array, q: Array, near: Array, tolerance: float) -> tuple[Array, NDArray[np.intp]]:
    """Return the minima, and the programs for which they were not found.

    Every x < 0 is held at zero from now on, and every x with y < 0 is free (Júdice and Pires 1994). This takes a
    handful of rounds, whatever `k`, but the number of wrong signs need not go down.
    """
    x, free = np.zeros_like(q), near > 0
    fewest, patience = np.full(len(q), q.shape[1] + 1), np.full(len(q), _PATIENCE)
    todo = np.arange(len(q))
    while len(todo):
        x[todo] = now = _solve(c, q[todo], free[todo])
        wrong = np.where(free[todo], now < 0, _too_low(c, q[todo], now, tolerance))
        count = wrong.sum(1)
        patience[todo] = np.where(count < fewest[todo], _PATIENCE, patience[todo] - 1)
        fewest[todo] = np.minimum(count, fewest[todo])
        free[todo] ^= wrong
        todo = todo[(count > 0) & (patience[todo] > 0)]
    return x, np.flatnonzero(fewest > 0)


def _descend(c: Array, q: Array, start: Array, tolerance: float) -> Array:
    """Return the minima, by steps that never ascend (Lawson and Hanson 1974).

    A step goes towards the solution for the free x until one of them is zero, which is held from now on. At the
    solution the x with the lowest y is free next. Each takes a round, so that there are many more of them.
    """
    x = start.clip(min=0)
    free = x > 0
    todo = np.arange(len(q))
    for _ in range(_STEPS * len(c)):
        now, goal = x[todo], _solve(c, q[todo], free[todo])
        stops = free[todo] & (goal <= 0)
        share = np.divide(now, now - goal, out=np.where(stops, 0.0, 1.0), where=stops & (now > 0))
        least = share.min(1, keepdims=True)
        arrived: NDArray[np.bool_] = ~np.any(stops, axis=1)
        part = np.where(stops & (share <= least), 0, now + least * (goal - now))
        x[todo] = now = np.where(arrived[:, None], goal, part)
        free[todo] &= now > 0
        low = _too_low(c, q[todo], now, tolerance) & ~free[todo] & arrived[:, None]
        more = low.any(1)
        free[todo[more], np.where(low, now @ c + q[todo], np.inf)[more].argmin(1)] = True
        todo = todo[more | ~arrived]
        if not len(todo):
            return x
    raise ArithmeticError(f"All weights should be found in {_STEPS * len(c)} steps. Found {len(todo)} that were not.")


def _too_low(c: Array, q: Array, x: Array, tolerance: float) -> NDArray[np.bool_]:
    low: NDArray[np.bool_] = x @ c + q < -tolerance * (np.abs(x).sum(1, keepdims=True) + np.abs(q))
    return low


def _solve(c: Array, q: Array, free: NDArray[np.bool_]) -> Array:
    """Return the x with y = 0 where they are free, and zero elsewhere, `b x k`."""
    x, size = np.zeros_like(q), int(free.sum(1).max())
    if size:
        index = np.argsort(~free, axis=1, kind="stable")[:, :size]  # the free ones first, then some that are not
        used = np.take_along_axis(free, index, 1)
        block = c[index[:, :, None], index[:, None, :]] * (used[:, :, None] & used[:, None, :])
        block[:, range(size), range(size)] += ~used
        right = np.where(used, -np.take_along_axis(q, index, 1), 0)
        np.put_along_axis(x, index, np.linalg.solve(block, right[:, :, None])[:, :, 0], 1)
    return x
