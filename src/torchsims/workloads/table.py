"""Any table with several targets, from a CSV or Parquet file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import Any, ClassVar, final
from zlib import crc32

import torch
from torch import Tensor, nn

from torchsims.data.tables import Features, Target, read_table, split_rows
from torchsims.metrics import Classification, Regression, TaskMetric
from torchsims.models import class_loss, number_loss
from torchsims.registry import choose
from torchsims.workloads.datasets import InMemory
from torchsims.workloads.table_predictor import TablePredictor
from torchsims.workloads.tabular import TARGET, TabularWorkload
from torchsims.workloads.task import Loss, TaskSpec

UNITS = ("native", "standard")
MISSING = ("masked", "zero")


@final
class TableWorkload(TabularWorkload):
    """The targets of a table, numbers and classes, of which any value may be missing.

    Numbers are predicted in standard units, and the losses are squared errors in the units of the table. The split does
    not depend on the seed of a run.

    Args:
        ignore: names of columns that are neither features nor targets, joined by ``+``.
        split_seed: seed of the split into 80 % training, 10 % validation and 10 % test rows.
        units: ``native``; or ``standard``, for comparison, which divides the loss of a number by its variance.
        missing: ``masked``; or ``zero``, for comparison, where a missing label counts as a label without a loss: the
            mean is over all rows, and the loss of a task shrinks with its share of labels.
        types: ``auto``, ``number`` or ``class``, one for all targets or one per target.
        tasks: names of the columns to predict.
        root: the CSV or Parquet file.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 30, "batch": 128, "lr": 1e-3, "model": "mlp"},
        "small": {"epochs": 5, "batch": 128, "lr": 1e-3, "model": "mlp:hidden=64"},
    }

    def __init__(
        self,
        ignore: str = "",
        split_seed: int = 0,
        units: str = "native",
        missing: str = "masked",
        *,
        types: Sequence[str] = (),
        tasks: Sequence[str] = (),
        root: str = "",
    ) -> None:
        if not root:
            raise ValueError("Option --csv should name a CSV or Parquet file. Found none.")
        if not tasks:
            raise ValueError("Option --targets should name columns, separated by commas. Found none.")
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"Targets should be distinct. Found {', '.join(tasks)}.")
        choose("system of units", units, UNITS)
        choose("treatment of missing labels", missing, MISSING)
        self._rows = _fit(Path(root), _version(Path(root)), tuple(tasks), tuple(types), ignore, split_seed)
        self._describe(self._rows.features, self._rows.targets, units, missing)

    def _describe(self, features: Features, targets: Sequence[Target], units: str, missing: str) -> None:
        self._features, self._targets = features, {target.name: target for target in targets}
        self.specs = {target.name: _task(target, units, missing) for target in targets}
        self.numbers, self.codes = features.width, features.codes

    def split(self, name: str) -> InMemory:
        return self._rows.splits[name]

    def prediction_state(self) -> dict[str, Any]:
        """Return the fitted features and targets, and a checksum of the table."""
        return {
            "features": asdict(self._features),
            "targets": [asdict(target) for target in self._targets.values()],
            "checksum": self._rows.checksum,
        }

    @classmethod
    def restore(
        cls, options: Mapping[str, Any], tasks: Sequence[str], root: str, state: Mapping[str, Any]
    ) -> "TableWorkload":
        workload = cls.__new__(cls)
        features, targets = Features(**state["features"]), [Target(**values) for values in state["targets"]]
        workload._describe(features, targets, options.get("units", "native"), options.get("missing", "masked"))
        return workload

    def predictor(self, model: nn.Module) -> TablePredictor:
        return TablePredictor(self, model, self._features, self._targets)


def _task(target: Target, units: str, missing: str) -> TaskSpec:
    loss: Loss = class_loss
    metric: Callable[[], TaskMetric]
    if target.classes is None:
        loss = partial(number_loss, sd=target.sd if units == "native" else 1.0)
        metric = partial(Regression, target.sd)
    else:
        metric = partial(Classification, len(target.classes))
    return TaskSpec(target.name, target.outputs, partial(_count_all, loss) if missing == "zero" else loss, metric)


def _count_all(loss: Loss, prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of a loss, and the number of all rows instead of those with a label."""
    total, count = loss(prediction, target)
    return total, torch.full_like(count, len(target))


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table that was read and fitted once, for all workloads that differ in their losses only."""

    features: Features
    targets: Sequence[Target]
    splits: Mapping[str, InMemory]
    checksum: int


@lru_cache(maxsize=2)  # every run of a comparison takes the same table
def _fit(
    path: Path, version: object, tasks: tuple[str, ...], types: tuple[str, ...], ignore: str, split_seed: int
) -> _Rows:
    table, left_out = read_table(path), [name.strip() for name in ignore.split("+") if name.strip()]
    for name in [*tasks, *left_out]:
        choose("column", name, table)
    kinds = _types(types, len(tasks))
    places = split_rows(len(next(iter(table.values()))), split_seed)
    train = {name: column[places["train"]] for name, column in table.items()}
    features = [name for name in table if name not in (*tasks, *left_out)]
    if not features:
        raise ValueError("A table should have columns beside its targets. Found none.")
    targets = [
        Target.fit(task, train[task], kind)  # type: ignore[arg-type]  # `fit` checks it
        for task, kind in zip(tasks, kinds, strict=True)
    ]
    fitted = Features.fit(train, features)
    numbers, codes = fitted.encode(table)  # all rows: an error in any of them is raised before the training
    columns = {"numbers": torch.from_numpy(numbers), "codes": torch.from_numpy(codes)}
    columns |= {f"{TARGET}{target.name}": torch.from_numpy(target.encode(table[target.name])) for target in targets}
    splits = {name: InMemory({key: column[rows] for key, column in columns.items()}) for name, rows in places.items()}
    checksum = reduce(lambda total, column: crc32(column.numpy().tobytes(), total), columns.values(), 0)
    return _Rows(fitted, targets, splits, checksum)


def _version(path: Path) -> tuple[int, int]:
    """Return what changes when a file is written again; a missing file is an error of its reader."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else (0, 0)


def _types(types: Sequence[str], count: int) -> Sequence[str]:
    if len(types) not in (0, 1, count):
        found = ",".join(types)
        raise ValueError(f"Option --types should have one type, or one for each of {count} targets. Found `{found}`.")
    return types if len(types) == count else list(types or ("auto",)) * count
