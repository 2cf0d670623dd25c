"""The hypervolume of a set of points, and which of them no other one dominates."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from torchsims._extras import needs


def hypervolume(points: ArrayLike, reference: Sequence[float], ideal: Sequence[float] | None = None) -> float:
    r"""Return the volume that points dominate, up to a reference point (Zitzler and Thiele, 1998), by ``moocore``.

    .. math::
        \operatorname{vol} \bigcup_k \, [x_k, r] \Big/ \prod_i (r_i - z_i)

    - :math:`x_k`: ``points``, `n x m`, of which less is better in every coordinate. Coordinates beyond the reference
      point add nothing, and so does a point with a NaN.
    - :math:`r`: ``reference``, `m`.
    - :math:`z`: ``ideal``, `m`, below the reference point in every coordinate. With it the result is a share of the box
      between the two, which no unit changes; without it the volume itself, which is not divided.

    Example:
        >>> hypervolume([[1.0, 2.0], [2.0, 1.0]], reference=[3.0, 3.0])
        3.0
        >>> hypervolume([[1.0, 2000.0], [2.0, 1000.0]], reference=[3.0, 3000.0], ideal=[0.0, 0.0])
        0.333...
    """
    with needs("experiments"):
        import moocore

    found, end = _matrix(points), np.asarray(reference, dtype=float)
    begin = np.zeros_like(end) if ideal is None else np.asarray(ideal, dtype=float)
    if found.shape[1:] != end.shape or begin.shape != end.shape:
        raise ValueError(
            f"Points, `reference` and `ideal` should have the same length. Found {found.shape[1]}, {end.size} and "
            f"{begin.size}."
        )
    size = end - begin if ideal is not None else np.ones_like(end)
    if not (size > 0).all():
        raise ValueError(f"Parameter `ideal` should be below `reference`. Found {ideal} and {reference}.")
    found = (found - begin) / size
    found = found[np.isfinite(found).all(1)]  # infinite is beyond every reference point
    return float(moocore.hypervolume(found, ref=(end - begin) / size)) if len(found) else 0.0


def non_dominated(points: ArrayLike) -> NDArray[np.bool_]:
    """Return which points, `n x m`, no other one dominates; less is better in every coordinate.

    A point dominates another if it is at least as good everywhere and better somewhere. Equal points do not
    dominate each other, and a point with a NaN is dominated.

    Example:
        >>> non_dominated([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [2.0, 1.0]]).tolist()
        [True, True, False, True]
    """
    with needs("experiments"):
        import moocore

    found = _matrix(points)
    known = ~np.isnan(found).any(1)
    keep = np.zeros(len(found), dtype=bool)
    if known.any():
        unique, back = np.unique(found[known], axis=0, return_inverse=True)
        keep[known] = moocore.is_nondominated(unique)[back.reshape(-1)]
    return keep


def _matrix(points: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(points, dtype=float)
    if found.ndim != 2 or not found.shape[1]:
        raise ValueError(f"Parameter `points` should have one row per point. Found shape {found.shape}.")
    return found
