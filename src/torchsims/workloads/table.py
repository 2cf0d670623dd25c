"""Any table with several targets, from a CSV or Parquet file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, final
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsims._specs import choose
from torchsims.data.tables import Features, Target, read_table, split_rows
from torchsims.losses import TaskLosses
from torchsims.metrics import Classification, Regression, TaskMetric
from torchsims.models import table_losses
from torchsims.workloads._base import InMemory
from torchsims.workloads._tabular import AT_ONCE, TabularWorkload

__all__ = ["TableWorkload"]

UNITS = ("native", "standard")
MISSING = ("masked", "zero")


@final
class TableWorkload(TabularWorkload):
    """The targets of a table, numbers and classes, of which any value may be missing.

    Numbers are predicted in standard units, and the losses are squared errors in the units of the table. The split does
    not depend on the seed of a run.

    Args:
        types: ``auto``, ``number`` or ``class`` for all targets, or one for each, joined by ``+``.
        ignore: the names of columns that are neither features nor targets, joined by ``+``.
        split_seed: another one is another split into 80 % training, 10 % validation and 10 % test.
        units: ``native`` or ``standard``, which divides the loss of a number by its variance, for comparison.
        missing: ``masked``, or ``zero``, where a missing label counts as one without a loss, for comparison: the mean
            is over all rows, and the loss of a task shrinks with its share of labels.
        tasks: the names of the columns to predict.
        root: the CSV or Parquet file.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 30, "batch": 128, "lr": 1e-3, "model": "mlp"},
        "small": {"epochs": 5, "batch": 128, "lr": 1e-3, "model": "mlp:hidden=64"},
    }

    def __init__(
        self,
        types: str = "auto",
        ignore: str = "",
        split_seed: int = 0,
        units: str = "native",
        missing: str = "masked",
        *,
        tasks: Sequence[str] = (),
        root: str | None = None,
    ) -> None:
        if not root:
            raise ValueError("Option --csv should name a CSV or Parquet file. Found none.")
        if not tasks:
            raise ValueError("Option --targets should name columns, separated by commas. Found none.")
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"Targets should be distinct. Found {', '.join(tasks)}.")
        if taken := sorted({"numbers", "codes", "mean"} & set(tasks)):
            raise ValueError(f"A target should not be called `{taken[0]}`, which stands for something else here.")
        choose("system of units", units, UNITS)
        choose("treatment of missing labels", missing, MISSING)
        self._units, self._missing = units, missing
        self._rows = _fit(_known(Path(root)), tuple(tasks), types, ignore, split_seed)
        self._know(self._rows.features, self._rows.targets)

    def _know(self, features: Features, targets: Sequence[Target]) -> None:
        self._features, self._targets = features, {target.name: target for target in targets}
        self.tasks = tuple(self._targets)
        self.outputs = {task: target.outputs for task, target in self._targets.items()}
        self.width, self.codes = features.width, features.codes

    @classmethod
    def restored(cls, fitted: Mapping[str, Any]) -> "TableWorkload":
        """Return the workload that :meth:`fitted` told of, for predictions: it has no rows of its own."""
        workload = cls.__new__(cls)
        workload._know(Features.from_dict(fitted["features"]), list(map(Target.from_dict, fitted["targets"])))
        return workload

    def encode(self, table: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
        """Return the features of rows as a batch."""
        return _batch(self._features, table)

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that are text."""
        return tuple(self._features.categories)

    @property
    def targets(self) -> Mapping[str, Target]:
        """What is predicted, by task."""
        return self._targets

    def split(self, name: str) -> InMemory:
        return self._rows.split(name)

    def items(self, name: str) -> int:
        return len(self._rows.places[name])

    def fitted(self) -> dict[str, Any]:
        return {
            "features": self._features.to_dict(),
            "targets": [target.to_dict() for target in self._targets.values()],
            "checksum": self._rows.checksum(),
        }

    def losses(self, predictions: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> TaskLosses:
        native = self._units == "native"
        found = table_losses(
            predictions, batch, {task: target.sd if native else 1.0 for task, target in self._targets.items()}
        )
        if self._missing == "masked":
            return found
        return TaskLosses(total=found.total, count=dict.fromkeys(predictions, len(batch["numbers"])))

    def metrics(self) -> dict[str, TaskMetric]:
        return {
            task: Regression(target.sd) if target.classes is None else Classification(len(target.classes))
            for task, target in self._targets.items()
        }


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table that was read and looked at once, for all workloads that differ in their losses only."""

    features: Features
    targets: Sequence[Target]
    columns: Mapping[str, Tensor]
    places: Mapping[str, NDArray[np.int64]]
    kept: dict[str, InMemory] = field(default_factory=dict)

    def split(self, name: str) -> InMemory:
        if name not in self.kept:
            rows = torch.from_numpy(self.places[name])
            self.kept[name] = InMemory({key: column[rows] for key, column in self.columns.items()}, AT_ONCE)
        return self.kept[name]

    def checksum(self) -> int:
        total = 0
        for column in self.columns.values():
            total = crc32(column.numpy().tobytes(), total)
        return total


@lru_cache(maxsize=2)  # settings are checked before a run, and every run of a comparison takes the same table
def _fit(known: "_File", tasks: tuple[str, ...], types: str, ignore: str, split_seed: int) -> _Rows:
    table, left_out = read_table(known.path), [name.strip() for name in ignore.split("+") if name.strip()]
    for name in [*tasks, *left_out]:
        choose("column", name, table)
    kinds = _types(types, len(tasks))
    places = split_rows(len(next(iter(table.values()))), split_seed)
    train = {name: column[places["train"]] for name, column in table.items()}
    features = [name for name in table if name not in (*tasks, *left_out)]
    if not features:
        raise ValueError("A table should have columns beside its targets. Found none.")
    targets = [
        Target.fit(task, train[task], kind)  # type: ignore[arg-type]  # it says which there are
        for task, kind in zip(tasks, kinds, strict=True)
    ]
    fitted = Features.fit(train, features)
    columns = _batch(fitted, table)  # of all rows: what is wrong with any of them is said before the training
    columns |= {target.name: _as_tensor(target.encode(table[target.name])) for target in targets}
    return _Rows(fitted, targets, columns, places)


@dataclass(frozen=True)
class _File:
    """A file as it was at some time."""

    path: Path
    changed: int = 0
    size: int = 0


def _known(path: Path) -> _File:
    if not path.is_file():
        return _File(path)  # who reads it says so
    stat = path.stat()
    return _File(path, stat.st_mtime_ns, stat.st_size)


def _batch(features: Features, table: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    numbers, codes = features.encode(table)
    return {"numbers": torch.from_numpy(numbers), "codes": torch.from_numpy(codes)}


def _as_tensor(labels: NDArray[Any]) -> Tensor:
    return torch.from_numpy(labels.astype(np.float32) if labels.dtype.kind == "f" else labels)


def _types(text: str, count: int) -> list[str]:
    kinds = [kind.strip() for kind in text.split("+")]
    if len(kinds) not in (1, count):
        raise ValueError(f"Option `types` should have one type, or one for each of {count} targets. Found `{text}`.")
    return kinds * (count // len(kinds))
