"""Preferences that are spread evenly."""

from collections.abc import Iterator, Sequence
from math import comb, inf

DIGITS = 6  # of a preference; a command line and a folder name repeat it


def preference_grid(tasks: Sequence[str], points: int, spread: float) -> list[dict[str, float]]:
    r"""Return preferences whose logarithms are an even grid: rays for two tasks, a simplex for more.

    .. math::
        p_i = s^{x_i - 1 / m}, \qquad x \in \{ k / n : k \in \mathbb{N}^m, \textstyle\sum_i k_i = n \}

    - :math:`s` (``spread``): the largest preference over the smallest, above 1. Only ratios count for a preference, so
      that equal steps of its logarithm are equal steps.
    - :math:`n`: the largest number with at most ``points`` preferences (the lattice of Das and Dennis, 1998). For two
      tasks there are ``points``, for three 3, 6, 10, 15, 21 and so on.

    The first one prefers the first task most, and neighbours are near each other.

    Example:
        >>> [tuple(p.values()) for p in preference_grid("abc", points=3, spread=8.0)]
        [(4.0, 0.5, 0.5), (0.5, 4.0, 0.5), (0.5, 0.5, 4.0)]
    """
    m = len(tasks)
    if m < 2:
        raise ValueError(f"A Pareto front needs at least two tasks. Found {', '.join(tasks) or 'none'}.")
    if not 1 < spread < inf:
        raise ValueError(f"Parameter `spread` should be above 1 and finite. Found `spread = {spread}`.")
    if points < m:
        raise ValueError(f"Parameter `points` should be at least the number of tasks, {m}. Found `points = {points}`.")
    n = 1
    while comb(n + m, m - 1) <= points:
        n += 1
    return [
        {task: float(f"{spread ** (k / n - 1 / m):.{DIGITS}g}") for task, k in zip(tasks, parts, strict=True)}
        for parts in _compositions(n, m)
    ]


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as an ordered sum, the largest first part first."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)
