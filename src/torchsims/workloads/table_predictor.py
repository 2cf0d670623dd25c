"""Predictions for the rows of a table."""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from torchsims.data.tables import Features, Format, Target, read_frame, read_table
from torchsims.workloads.predictors import FilePrediction, Predictor

if TYPE_CHECKING:
    from torchsims.workloads.base import Workload

Columns = Mapping[str, NDArray[Any]]
Table = str | PathLike[str] | Columns

NOTE = (
    "One line per row, in the order of the table. Typical: the mean of numbers, the most frequent class. "
    "The probability is that of the predicted class."
)


@final
class TablePredictor(Predictor):
    r"""Predicts the targets of the rows of a table: its columns are features, and outputs become values of targets.

    Example:
        >>> import tempfile
        >>> from torchsims.workloads import load_workload
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table, rows = Path(folder) / "table.csv", "".join(f"{i},{i % 2},{3 * i}\n" for i in range(100))
        ...     _ = table.write_text(f"x,odd,y\n{rows}")
        ...     workload = load_workload("table", ("y", "odd"), str(table))
        >>> found = workload.predictor(workload.build_model()).predict({"x": np.array([3.0, np.nan, 1e3])})
        >>> {task: len(column) for task, column in found.items()}
        {'y': 3, 'odd': 3}
    """

    def __init__(
        self,
        workload: "Workload",
        model: nn.Module,
        features: Features,
        targets: Mapping[str, Target],
        form: Format | None = None,
    ) -> None:
        super().__init__(workload, model)
        self._features, self._targets, self._form = features, targets, form

    def predict(self, data: Table) -> dict[str, NDArray[Any]]:
        """Return the prediction of every task, one value per row: numbers in the unit of the table, classes by name.

        The data are a file, columns by name or a data frame; columns that are not features are ignored. A category that
        the training did not see, and a missing value, are predicted from the other columns.
        """
        outputs = self._network_outputs(data)
        return {task: _named(self._targets[task], self._targets[task].decode(out)) for task, out in outputs.items()}

    def predict_proba(self, data: Table) -> dict[str, NDArray[np.float64]]:
        """Return the probabilities of the classes, `row x class`, of every task that has classes."""
        outputs = self._network_outputs(data)
        kinds = {task: target.kind for task, target in self._targets.items()}
        return {task: Target.probabilities(out) for task, out in outputs.items() if kinds[task] == "class"}

    def predict_file(self, path: str | PathLike[str]) -> FilePrediction:
        """Return what is predicted from a CSV or Parquet file."""
        path, columns = Path(path), self._read(path)
        found, probabilities = self.predict(columns), self.predict_proba(columns)
        written: list[tuple[str, NDArray[Any]]] = []
        rows = []
        for task, values in found.items():
            if task in probabilities:
                names, counts = np.unique(values, return_counts=True)
                typical: Any = str(names[counts.argmax()])
                written += [(task, values), (f"{task} probability", probabilities[task].max(1))]
            else:
                typical = float(values.astype(np.float64).mean())
                written.append((task, values))
            rows.append({"table": path.name, "rows": len(values), "task": task, "typical": typical})
        return FilePrediction(path, found, rows, NOTE, {"predictions.csv": _as_csv(written)})

    def _read(self, path: str | PathLike[str]) -> dict[str, NDArray[Any]]:
        """Return the columns of a file, read as those of the training, whatever they look like."""
        return read_table(Path(path), **self._kinds(), form=self._form)

    def _kinds(self) -> dict[str, Collection[str]]:
        """Return the names of the columns of each kind."""
        columns = self._features
        return {"categories": columns.categories, "dates": columns.dates, "numbers": columns.numbers}

    def _network_outputs(self, data: Table) -> dict[str, NDArray[Any]]:
        if isinstance(data, str | PathLike):
            columns: Columns = self._read(data)
        else:
            needed = {name for names in self._kinds().values() for name in names}
            columns = read_frame({name: data[name] for name in data if str(name) in needed}, **self._kinds())
        numbers, codes = self._features.encode(columns)
        found = self._outputs({"numbers": torch.from_numpy(numbers), "codes": torch.from_numpy(codes)})
        return {task: values.cpu().numpy() for task, values in found.items()}


def _named(target: Target, values: NDArray[Any]) -> NDArray[Any]:
    """Return predicted classes as integers if all classes are whole numbers, and other values as they are."""
    names = np.asarray(target.classes or ())
    whole = len(names) and names.dtype.kind == "f" and (names == np.round(names)).all()
    return values.astype(np.int64) if whole else values


def _as_csv(columns: Sequence[tuple[str, NDArray[Any]]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(column.tolist() for _, column in columns), strict=True))
    return text.getvalue().encode()
