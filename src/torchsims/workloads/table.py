"""Any table with several targets, from a CSV or Parquet file."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsims._specs import choose
from torchsims.data.tables import Features, Target, read_table, split_rows
from torchsims.losses import TaskLosses
from torchsims.metrics import Classification, DenseMetric, Regression
from torchsims.models import table_losses
from torchsims.workloads._base import InMemory
from torchsims.workloads._tabular import AT_ONCE, TabularWorkload

__all__ = ["TableWorkload"]


@final
class TableWorkload(TabularWorkload):
    """The targets of a table, numbers and classes, of which any value may be missing.

    Numbers are predicted in standard units, and the losses are squared errors in the units of the table. The split does
    not depend on the seed of a run.

    Args:
        csv: the file; ``root`` may name it as well.
        targets: the names of the columns to predict, joined by ``+``.
        types: ``auto``, ``number`` or ``class`` for all of them, or one for each, joined by ``+``.
        ignore: the names of columns that are neither features nor targets, joined by ``+``.
        split_seed: another one is another split into 80 % training, 10 % validation and 10 % test.
        tasks: out of the targets; all of them by default.
        root: the file, if ``csv`` does not name it.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 30, "batch": 128, "lr": 1e-3, "model": "mlp"},
        "small": {"epochs": 5, "batch": 128, "lr": 1e-3, "model": "mlp:hidden=64"},
    }

    def __init__(
        self,
        csv: str = "",
        targets: str = "",
        types: str = "auto",
        ignore: str = "",
        split_seed: int = 0,
        *,
        tasks: Sequence[str] = (),
        root: str | None = None,
    ) -> None:
        if not (csv or root):
            raise ValueError("Option `csv` should name a CSV or Parquet file. Found none.")
        table = _read(Path(csv or root or ""))
        names, left_out = _names(targets), _names(ignore)
        if not names:
            raise ValueError("Option `targets` should name columns, joined by +. Found none.")
        for name in [*names, *left_out]:
            choose("column", name, table)
        kinds = _types(types, len(names))
        for task in tasks:
            choose("task", task, names)
        self.tasks = tuple(tasks or names)
        self._table, self._rows = table, split_rows(len(next(iter(table.values()))), split_seed)
        train = {name: column[self._rows["train"]] for name, column in table.items()}
        features = [name for name in table if name not in (*names, *left_out)]
        if not features:
            raise ValueError("A table should have columns beside its targets. Found none.")
        self._features = Features.fit(train, features)
        fitted = dict(zip(names, kinds, strict=True))
        self._targets = {task: Target.fit(task, train[task], fitted[task]) for task in self.tasks}  # type: ignore[arg-type]
        self.outputs = {task: target.outputs for task, target in self._targets.items()}
        self.width, self.codes = self._features.width, self._features.codes
        self._kept: dict[str, InMemory] = {}

    def split(self, name: str) -> InMemory:
        if name not in self._kept:
            part = {column: values[self._rows[name]] for column, values in self._table.items()}
            numbers, codes = self._features.encode(part)
            columns = {"numbers": torch.from_numpy(numbers), "codes": torch.from_numpy(codes)}
            columns |= {task: _as_tensor(target.encode(part[task])) for task, target in self._targets.items()}
            self._kept[name] = InMemory(columns, AT_ONCE)
        return self._kept[name]

    def losses(self, predictions: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> TaskLosses:
        return table_losses(predictions, batch, {task: target.sd for task, target in self._targets.items()})

    def metrics(self) -> dict[str, DenseMetric]:
        return {
            task: Regression(target.sd) if target.classes is None else Classification(len(target.classes))
            for task, target in self._targets.items()
        }


def _as_tensor(labels: NDArray[Any]) -> Tensor:
    return torch.from_numpy(labels.astype(np.float32) if labels.dtype.kind == "f" else labels)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split("+") if name.strip()]
    if len(set(names)) < len(names):
        raise ValueError(f"The names of columns should be distinct. Found `{text}`.")
    return names


def _types(text: str, count: int) -> list[str]:
    kinds = [kind.strip() for kind in text.split("+")]
    if len(kinds) not in (1, count):
        raise ValueError(f"Option `types` should have one type, or one for each of {count} targets. Found `{text}`.")
    return kinds * (count // len(kinds))


def _read(path: Path) -> dict[str, NDArray[Any]]:
    stat = path.stat() if path.is_file() else None
    return _read_once(path, stat and (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=2)  # settings are checked before a run, and every run of a comparison reads the same table
def _read_once(path: Path, version: object) -> dict[str, NDArray[Any]]:
    return read_table(path)
