from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from torchsims.data.tables import read_table
from torchsims.workloads._tabular import AT_ONCE
from torchsims.workloads.table import TableWorkload

__all__ = ["TablePredictor"]

Columns = Mapping[str, NDArray[Any]]


@final
class TablePredictor:
    r"""The model of a run on a table, for rows that it has never seen. :func:`torchsims.load` makes one.

    Args:
        workload: the columns that it was trained on, without their rows.
        model: the trained model.

    Attributes:
        tasks: what it predicts.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torchsims
        >>> from torchsims.training import Settings, train
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table, rows = Path(folder) / "table.csv", "".join(f"{i},{i % 2},{3 * i}\n" for i in range(100))
        ...     _ = table.write_text(f"x,odd,y\n{rows}")
        ...     settings = Settings("table", model="mlp", tasks=("y", "odd"), root=str(table), epochs=1, batch=16)
        ...     outcome = train(settings, Path(folder) / "run")
        ...     table.unlink()
        ...     predictor = torchsims.load(Path(folder) / "run")
        >>> found = predictor.predict({"x": np.array([3.0, np.nan, 1e3])})
        >>> {task: len(column) for task, column in found.items()}
        {'y': 3, 'odd': 3}
    """

    def __init__(self, workload: TableWorkload, model: nn.Module) -> None:
        self._workload, self._model = workload, model.eval()
        self.tasks: tuple[str, ...] = workload.tasks

    def predict(self, table: str | PathLike[str] | Columns) -> dict[str, NDArray[Any]]:
        """Return the prediction of every task, a value a row: numbers in the unit of the table, classes by name.

        A category that the training did not see, and a value that is missing, are predicted from the other columns.

        Args:
            table: a CSV or Parquet file, or columns by name. Columns that are no feature are not looked at.
        """
        return {task: self._workload.targets[task].decode(out) for task, out in self._outputs(table).items()}

    def predict_proba(self, table: str | PathLike[str] | Columns) -> dict[str, NDArray[np.float64]]:
        """Return the probabilities of the classes, `row x class`, of every task that has classes."""
        targets = self._workload.targets
        outputs = {task: out for task, out in self._outputs(table).items() if targets[task].kind == "class"}
        return {task: targets[task].probabilities(out) for task, out in outputs.items()}

    def read(self, path: str | PathLike[str]) -> dict[str, NDArray[Any]]:
        """Return the columns of a CSV or Parquet file, with categories as text, whatever they look like."""
        return read_table(Path(path), self._workload.categories)

    @torch.no_grad()
    def _outputs(self, table: str | PathLike[str] | Columns) -> dict[str, NDArray[Any]]:
        columns = table if isinstance(table, Mapping) else self.read(table)
        like = next(self._model.parameters())
        batch = self._workload.encode(columns)
        numbers, codes = batch["numbers"].to(like), batch["codes"].to(like.device)
        parts = [
            self._workload.predict(self._model, {"numbers": numbers[rows], "codes": codes[rows]})
            for rows in (slice(start, start + AT_ONCE) for start in range(0, len(numbers), AT_ONCE))
        ]
        return {task: torch.cat([part[task] for part in parts]).cpu().numpy() for task in self.tasks}
