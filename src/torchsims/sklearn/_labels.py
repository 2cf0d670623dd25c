"""What scikit-learn calls y, as columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims.data.tables import Kind, Target


def read_columns(y: Any) -> tuple[list[NDArray[Any]], bool]:
    """Return the columns of y, float64 or objects, and whether y has one dimension."""
    array = np.asarray(y)
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(f"Parameter `y` should have one or two dimensions and a value. Found shape {array.shape}.")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: parameter `y` should hold real numbers or classes.")
    columns = array.reshape(len(array), -1).T
    return [_column(column) for column in columns], array.ndim == 1


def names_of(y: Any, count: int) -> list[str]:
    """Return the names of the columns of a data frame, or numbers."""
    names = [str(name) for name in getattr(y, "columns", range(count))]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The columns of `y` should have distinct names. Found `{twice}` twice.")
    return names


def read_targets(names: Sequence[str], columns: Sequence[NDArray[Any]], types: Kind | Sequence[Kind]) -> list[Target]:
    """Return what the columns say about their targets."""
    kinds = [types] * len(names) if isinstance(types, str) else list(types)
    if len(kinds) != len(names):
        raise ValueError(
            f"Parameter `target_types` should have a type for each of {len(names)} targets. Found {len(kinds)}."
        )
    return [Target.fit(name, column, kind) for name, column, kind in zip(names, columns, kinds, strict=True)]


def _column(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind != "O":
        return column.astype(object)
    try:  # objects that are all numbers or missing
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return column
