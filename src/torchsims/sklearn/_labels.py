"""What scikit-learn calls y, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from torchsims.data.tables import Kind, Target, is_missing
from torchsims.sklearn._checks import check_distinct

EXACT = 2**53  # up to which float64 holds every whole number


@final
@dataclass(frozen=True, eq=False)
class Labels:
    """The columns of y.

    Attributes:
        names: names of the columns of a data frame, the name of a series, or numbers.
        columns: float64, objects or dates, which are no targets; NaN or a mark of data frames where missing.
        dtypes: types of the columns as y has them; float64 for all numbers but integers.
        stated: whether y says that a column holds classes: booleans, and the categorical type of data frames.
        flat: whether y has one dimension.
    """

    names: list[str]
    columns: list[NDArray[Any]]
    dtypes: list[np.dtype[Any]]
    stated: list[bool]
    flat: bool

    def take(self, rows: NDArray[Any]) -> "Labels":
        """Return some rows."""
        return Labels(self.names, [column[rows] for column in self.columns], self.dtypes, self.stated, self.flat)

    def with_classes(self, classes: Any) -> "Labels":
        """Return the labels and one more row for each further class, so that all of them are known."""
        if classes is None:
            return self
        given = list(classes)
        if len(self.columns) == 1 and not (len(given) == 1 and (given[0] is None or np.ndim(given[0]))):
            given = [classes]  # those of the only target, without a list around them
        if len(given) != len(self.columns):
            raise ValueError(
                f"Parameter `classes` should have an entry for each of {len(self.columns)} targets, "
                f"`None` for numbers. Found {len(given)}."
            )
        more = max(0 if known is None else len(known) for known in given)
        columns = []
        for column, known in zip(self.columns, given, strict=True):
            rest = np.full(more, None if column.dtype == object else np.nan, dtype=column.dtype)
            if known is not None:
                rest[: len(known)] = known
            columns.append(np.concatenate([column, rest]))
        stated = [known is not None or before for known, before in zip(given, self.stated, strict=True)]
        return Labels(self.names, columns, self.dtypes, stated, self.flat)

    def fit(self, types: Kind | Sequence[Kind]) -> list[Target]:
        """Return what the columns say about their targets."""
        kinds = [types] * len(self.names) if isinstance(types, str) else list(types)
        if len(kinds) != len(self.names):
            raise ValueError(
                f"Parameter `target_types` should have a type for each of {len(self.names)} targets. "
                f"Found {len(kinds)}."
            )
        found = []
        for name, column, kind, stated in zip(self.names, self.columns, kinds, self.stated, strict=True):
            if kind == "class" and column.dtype != object and (column[np.isfinite(column)] % 1).any():
                raise ValueError(f"Unknown label type: target `{name}` should hold classes. Found fractions.")
            found.append(Target.fit(name, column, "class" if kind == "auto" and stated else kind))
        return found

    def encode(self, targets: Sequence[Target]) -> list[NDArray[Any]]:
        """Return the columns as a network is trained on them."""
        if len(targets) != len(self.columns):
            raise ValueError(f"Parameter `y` should have {len(targets)} targets. Found {len(self.columns)}.")
        return [target.encode(column) for target, column in zip(targets, self.columns, strict=True)]

    def check_known(self, targets: Sequence[Target]) -> None:
        """Raise an error for a class that the first fit did not see."""
        for target, column, codes in zip(targets, self.columns, self.encode(targets), strict=True):
            if target.kind == "class" and (new := np.flatnonzero((codes < 0) & ~is_missing(column))).size:
                raise ValueError(
                    f"Target `{target.name}` should have the classes of the first fit. Found `{column[new[0]]}`."
                )


def read_labels(y: Any) -> Labels:
    """Return the columns of an array, a series or a data frame."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    parts, flat = _parts(y)
    named = flat and getattr(y, "name", None) not in (None, "")
    names = [str(name) for name in ([y.name] if named else getattr(y, "columns", range(len(parts))))]
    check_distinct("y", names)
    columns = [_column(np.asarray(part)) for part in parts]
    dtypes = [_dtype(part, column) for part, column in zip(parts, columns, strict=True)]
    stated = [getattr(part.dtype, "kind", "O") == "b" or str(part.dtype) == "category" for part in parts]
    return Labels(names, columns, dtypes, stated, flat)


def _parts(y: Any) -> tuple[list[Any], bool]:
    """Return the columns of y in the types that they have, and whether there is one without a second dimension."""
    if hasattr(y, "iloc") and getattr(y, "ndim", 0) == 2 and 0 not in y.shape:
        return [y.iloc[:, i] for i in range(y.shape[1])], False
    array = y if hasattr(y, "iloc") and getattr(y, "ndim", 0) == 1 else np.asarray(y)
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(f"Parameter `y` should have one or two dimensions and a value. Found shape {array.shape}.")
    if getattr(array.dtype, "kind", "O") == "c":
        raise ValueError("Complex data not supported: parameter `y` should hold real numbers or classes.")
    return ([array], True) if array.ndim == 1 else (list(array.T), False)


def _column(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        return column
    if column.dtype.kind != "O":
        return column.astype(object)
    if any(isinstance(value, str) for value in column):
        return column
    try:  # objects that are all numbers or missing
        return np.where(is_missing(column), np.nan, column).astype(np.float64)
    except (TypeError, ValueError):
        return column


def predicted_dtype(target: Target, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of predictions: that of y for classes, but integers for whole numbers that are floats in y."""
    if target.classes is None:
        return np.dtype(np.float64)
    if dtype != np.float64:
        return dtype
    whole = all(float(name).is_integer() and abs(name) <= EXACT for name in target.classes)
    return np.dtype(np.int64) if whole else dtype


def _dtype(part: Any, column: NDArray[Any]) -> np.dtype[Any]:
    """Return the type of a column: that of y, and text for objects that are no numbers."""
    kind = getattr(part.dtype, "kind", "O")
    if column.dtype == object:
        return np.dtype(object)
    return {"b": np.dtype(bool), "i": np.dtype(np.int64), "u": np.dtype(np.int64)}.get(kind, np.dtype(np.float64))
