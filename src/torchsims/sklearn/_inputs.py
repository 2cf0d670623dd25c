"""What scikit-learn calls X, as rows that a network sees: arrays, sparse matrices and data frames."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.sparsefuncs import mean_variance_axis  # type: ignore[import-untyped]
from sklearn.utils.validation import validate_data  # type: ignore[import-untyped]
from torch import Tensor

from torchsims.data.tables import ColumnSummary, Features, is_identifier, read_frame, summarize
from torchsims.registry import choose
from torchsims.sklearn._checks import check_distinct

Table: TypeAlias = Mapping[str, NDArray[Any]]
Batch: TypeAlias = tuple[Tensor, Tensor]
"""Numbers, `row x number`, and codes, `row x categorical column`."""

KINDS = ("categories", "dates", "numbers")


class Rows(Protocol):
    """Rows in memory."""

    def __len__(self) -> int: ...

    def batch(self, rows: Tensor) -> Batch:
        """Return some rows."""


class Inputs(Protocol):
    """How X becomes rows: fitted once, then the same for every X."""

    @property
    def width(self) -> int:
        """Number of numeric inputs per row."""

    @property
    def codes(self) -> tuple[int, ...]:
        """Number of codes of each categorical column."""

    def rows(self, data: Any) -> Rows:
        """Return the rows of what :func:`read_inputs` returned."""


def read_inputs(estimator: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803  # scikit-learn calls it so
    """Return X as columns by name, or as a sparse matrix; ``reset`` says that it is the X of a new fit."""
    given = named_columns(estimator)
    if is_frame(X):
        check_distinct("X", [str(name) for name in X.columns])
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if not len(X):
            raise ValueError("Found array with 0 sample(s): a data frame should have at least one row.")
        table = read_frame(X, **given)
    else:
        checks = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 1 + reset}
        finite = True if issparse(X) else "allow-nan"
        array = validate_data(estimator, X, reset=reset, ensure_all_finite=finite, **checks)
        if issparse(array):
            return csr_array(array)
        table = {f"x{i}": column for i, column in enumerate(array.T)}
        if any(given.values()):
            table = read_frame(table, **given)
    for name in (name for names in given.values() for name in names):
        choose("column", name, table)
    return table


def named_columns(estimator: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns of each kind that a user named; a text is one name."""
    given = {kind: getattr(estimator, kind) for kind in KINDS}
    return {kind: (names,) if isinstance(names, str) else tuple(names or ()) for kind, names in given.items()}


def fit_inputs(data: Any, named: Collection[str], frame: bool) -> tuple[Inputs, list[ColumnSummary]]:
    """Return how to see the training rows, and how their columns were read, if they have names."""
    if issparse(data):
        return SparseInputs.fit(data), []
    left_out = [name for name in data if frame and name not in named and is_identifier(name, data[name])]
    features = [name for name in data if name not in left_out]
    if not features:
        raise ValueError(f"A data frame should have columns that do not name its rows. Found only {left_out[0]}.")
    found = [summarize(name, data[name], "feature") for name in features] if frame else []
    found += [summarize(name, data[name], "left out", note="identifies the rows") for name in left_out]
    return TableInputs(Features.fit(data, features), tuple(data)), found


def take_rows(data: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of what :func:`read_inputs` returned."""
    return data[rows] if issparse(data) else {name: column[rows] for name, column in data.items()}


def count_rows(data: Any) -> int:
    """Return how many rows there are."""
    return int(data.shape[0]) if issparse(data) else len(next(iter(data.values())))


def is_frame(X: Any) -> bool:  # noqa: N803
    """Return whether X has columns with names."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


@final
class TableInputs:
    """Numbers in standard units and codes of categories, as :class:`torchsims.data.tables.Features` has them.

    ``names`` are those of all columns in their order: an X without names has the same columns, as scikit-learn says.
    """

    def __init__(self, features: Features, names: Sequence[str]) -> None:
        self._features, self.width, self.codes = features, features.width, features.codes
        self._names = names

    def rows(self, data: Any) -> "DenseRows":
        """Return the rows of columns by name, or of a sparse matrix."""
        columns = data.toarray().T if issparse(data) else data.values()
        numbers, codes = self._features.encode(dict(zip(self._names, columns, strict=True)))
        return DenseRows(torch.from_numpy(numbers), torch.from_numpy(codes))


@final
@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows as tensors."""

    numbers: Tensor
    codes: Tensor

    def __len__(self) -> int:
        return len(self.numbers)

    def batch(self, rows: Tensor) -> Batch:
        """Return some rows."""
        return self.numbers.index_select(0, rows), self.codes.index_select(0, rows)


@final
@dataclass(frozen=True, eq=False)
class SparseInputs:
    """Numbers in standard units: a matrix stays sparse, and each batch is standardised when it is dense."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    codes: tuple[int, ...] = ()

    @classmethod
    def fit(cls, matrix: Any) -> "SparseInputs":
        """Fit a matrix in CSR format."""
        mean, variance = mean_variance_axis(matrix, axis=0)
        return cls(mean, np.where(variance > 0, np.sqrt(variance), 1.0))

    @property
    def width(self) -> int:
        """Number of numeric inputs per row."""
        return len(self.mean)

    def rows(self, data: Any) -> "SparseRows":
        """Return the rows of a matrix; one that is dense is taken, too."""
        return SparseRows(csr_array(np.stack(list(data.values()), 1)) if isinstance(data, Mapping) else data, self)


@final
@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse matrix."""

    matrix: Any
    inputs: SparseInputs

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def batch(self, rows: Tensor) -> Batch:
        """Return some rows, dense and in standard units."""
        dense = (self.matrix[rows.numpy()].toarray() - self.inputs.mean) / self.inputs.sd
        return torch.from_numpy(dense.astype(np.float32)), torch.zeros((len(rows), 0), dtype=torch.int64)
