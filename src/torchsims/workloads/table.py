"""Any table with several targets, from a CSV or Parquet file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial, reduce
from hashlib import file_digest
from pathlib import Path
from typing import Any, ClassVar, final
from zlib import crc32

import torch
from torch import Tensor, nn

from torchsims.data.tables import (
    ColumnSummary,
    Features,
    Format,
    Target,
    is_identifier,
    read_table,
    split_rows,
    summarize,
)
from torchsims.metrics import Classification, Regression, TaskMetric
from torchsims.models import class_loss, number_loss
from torchsims.registry import choose, split_list
from torchsims.workloads.datasets import InMemory
from torchsims.workloads.table_predictor import TablePredictor
from torchsims.workloads.tabular import TARGET, TabularWorkload
from torchsims.workloads.task import Loss, TaskSpec

UNITS = ("native", "standard")
MISSING = ("masked", "zero")
SHOWN = 6  # columns with missing values that a page names


@final
class TableWorkload(TabularWorkload):
    """The targets of a table, numbers and classes, of which any value may be missing.

    Numbers are predicted in standard units, and the losses are squared errors in the units of the table. The split does
    not depend on the seed of a run.

    Args:
        split_seed: seed of the split into 80 % training, 10 % validation and 10 % test rows.
        units: ``native``; or ``standard``, for comparison, which divides the loss of a number by its variance.
        missing: ``masked``; or ``zero``, for comparison, where a missing label counts as a label without a loss: the
            mean is over all rows, and the loss of a task shrinks with its share of labels.
        separator, encoding, decimal, thousands, currency, na, date_order: how a text file is written, see
            :class:`torchsims.data.tables.Format`.
        types: ``auto``, ``number`` or ``class``, one for all targets or one per target.
        categories: columns that are categories even if they look like numbers, such as zip codes.
        dates: columns that are dates.
        numbers: columns that are numbers.
        ignore: columns that are neither features nor targets.
        split: which of the random splits, 0, 1, ...; it is added to ``split_seed``.
        tasks: names of the columns to predict.
        root: the file.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 30, "batch": 128, "lr": 1e-3, "model": "mlp"},
        "small": {"epochs": 5, "batch": 128, "lr": 1e-3, "model": "mlp:hidden=64"},
    }

    def __init__(
        self,
        split_seed: int = 0,
        units: str = "native",
        missing: str = "masked",
        separator: str = "auto",
        encoding: str = "utf-8",
        decimal: str = "point",
        thousands: str = "none",
        currency: str = "",
        na: str = "",
        date_order: str = "auto",
        *,
        types: Sequence[str] = (),
        categories: Sequence[str] = (),
        dates: Sequence[str] = (),
        numbers: Sequence[str] = (),
        ignore: Sequence[str] = (),
        split: int = 0,
        tasks: Sequence[str] = (),
        root: str = "",
    ) -> None:
        if not root:
            raise ValueError("Option --csv should name a file with a table. Found none.")
        if not tasks:
            raise ValueError("Option --targets should name columns, separated by commas. Found none.")
        if len(set(tasks)) < len(tasks):
            twice = next(name for name in tasks if tasks.count(name) > 1)
            raise ValueError(f"Targets should be distinct. Found `{twice}` twice.")
        choose("system of units", units, UNITS)
        choose("treatment of missing labels", missing, MISSING)
        form = Format(separator, encoding, decimal, thousands, currency, na, date_order)
        columns = _Columns(tuple(tasks), tuple(types), tuple(categories), tuple(dates), tuple(numbers), tuple(ignore))
        self._file = Path(root).name
        self._rows = _fit(Path(root), _version(Path(root)), form, columns, split_seed + split)
        self._set_tasks(self._rows.features, self._rows.targets, form, units, missing)

    def _set_tasks(self, features: Features, targets: Sequence[Target], form: Format, units: str, missing: str) -> None:
        self._form = form
        self._features, self._targets = features, {target.name: target for target in targets}
        self.specs = {target.name: _task(target, units, missing) for target in targets}
        self.numbers, self.codes = features.width, features.codes

    def split(self, name: str) -> InMemory:
        return self._rows.splits[name]

    def describe_data(self) -> list[dict[str, Any]]:
        """Return how each column was read, with examples."""
        return [summary.row() for summary in self._rows.columns]

    def data_facts(self) -> dict[str, str]:
        columns = self._rows.columns
        roles = {role: [c for c in columns if c.role == role] for role in ("target", "feature", "left out")}
        counts = ", ".join(
            f"{len(of)} {role}{'s' * (role != 'left out' and len(of) != 1)}" for role, of in roles.items()
        )
        rows = sum(map(self.items, self._rows.splits))
        gaps = {
            column.name: 100 * column.missing / rows
            for column in columns
            if column.missing and column.role != "left out"
        }
        most = sorted(gaps, key=lambda name: -gaps[name])
        text = ", ".join(f"{name} {gaps[name]:.2g} %" for name in most[:SHOWN]) or "no value"
        more = f", and {len(most) - SHOWN} more columns" if len(most) > SHOWN else ""
        return {"file": self._file, **super().data_facts(), "columns": counts, "missing": text + more}

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file."""
        return self._rows.fingerprint

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
        form = Format(**{name: options[name] for name in Format.names() if name in options})
        workload._set_tasks(features, targets, form, options.get("units", "native"), options.get("missing", "masked"))
        return workload

    def predictor(self, model: nn.Module) -> TablePredictor:
        return TablePredictor(self, model, self._features, self._targets, self._form)


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


@dataclass(frozen=True)
class _Columns:
    """What the columns of a table are said to be."""

    targets: tuple[str, ...]
    types: tuple[str, ...]
    categories: tuple[str, ...]
    dates: tuple[str, ...]
    numbers: tuple[str, ...]
    ignore: tuple[str, ...]

    def kinds(self) -> list[str]:
        """Return the type of every target: as ``types`` say, or one that it is named to be among the columns."""
        count = len(self.targets)
        if len(self.types) not in (0, 1, count):
            found = ",".join(self.types)
            raise ValueError(
                f"Option --types should have one type, or one for each of {count} targets. Found `{found}`."
            )
        given = self.types if len(self.types) == count else (self.types or ("auto",)) * count
        named = dict.fromkeys(self.categories, "class") | dict.fromkeys(self.numbers, "number")
        return [
            named.get(name, kind) if kind == "auto" else kind for name, kind in zip(self.targets, given, strict=True)
        ]

    def check(self, table: Mapping[str, Any]) -> None:
        """Raise if a column does not exist, or is said to be two things."""
        named = {f"--{name}": getattr(self, name) for name in ("categories", "dates", "numbers", "ignore")}
        for option, names in {"--targets": self.targets, **named}.items():
            for name in names:
                if name not in table and (whole := [of for of in table if set(split_list(of)) <= set(names)]):
                    raise ValueError(
                        f"There is no column `{name}`. A name with a comma is in double quotes: {option} "
                        f"'\"{whole[0]}\"'."
                    )
                choose("column", name, table)
        for name in table:
            if len(options := [option for option, names in named.items() if name in names]) > 1:
                raise ValueError(f"Column `{name}` should be one of {' and '.join(options)}. Found it in both.")
        for option in ("--ignore", "--dates"):
            if twice := [name for name in self.targets if name in named[option]]:
                raise ValueError(f"Option {option} should not name a target. Found `{twice[0]}`.")


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table that was read and fitted once, for all workloads that differ in their losses only."""

    features: Features
    targets: Sequence[Target]
    splits: Mapping[str, InMemory]
    columns: Sequence[ColumnSummary]
    checksum: int
    fingerprint: str


@lru_cache(maxsize=2)  # every run of a comparison takes the same table
def _fit(path: Path, version: object, form: Format, columns: _Columns, split_seed: int) -> _Rows:
    named = {"categories": columns.categories, "dates": columns.dates, "numbers": columns.numbers}
    table = read_table(path, form=form, **named)
    columns.check(table)
    with path.open("rb") as file:
        fingerprint = file_digest(file, "sha256").hexdigest()
    kinds = columns.kinds()
    places = split_rows(len(next(iter(table.values()))), split_seed)
    train = {name: column[places["train"]] for name, column in table.items()}
    left_out = _left_out(table, columns)
    features = [name for name in table if name not in (*columns.targets, *left_out)]
    if not features:
        found = f"only {', '.join(left_out)}, which are left out" if left_out else "none"
        raise ValueError(f"A table should have columns beside its targets. Found {found}.")
    targets = [
        Target.fit(task, train[task], kind)  # type: ignore[arg-type]  # `fit` checks it
        for task, kind in zip(columns.targets, kinds, strict=True)
    ]
    fitted = Features.fit(train, features)
    numbers, codes = fitted.encode(table)  # all rows: an error in any of them is raised before the training
    tensors = {"numbers": torch.from_numpy(numbers), "codes": torch.from_numpy(codes)}
    tensors |= {f"{TARGET}{target.name}": torch.from_numpy(target.encode(table[target.name])) for target in targets}
    splits = {name: InMemory({key: column[rows] for key, column in tensors.items()}) for name, rows in places.items()}
    checksum = reduce(lambda total, column: crc32(column.numpy().tobytes(), total), tensors.values(), 0)
    return _Rows(fitted, targets, splits, _summaries(table, targets, left_out), checksum, fingerprint)


def _left_out(table: Mapping[str, Any], columns: _Columns) -> dict[str, str]:
    """Return the columns that are no features, with the reason."""
    named = (*columns.targets, *columns.categories, *columns.dates, *columns.numbers)
    found = {name: "identifies the rows" for name in table if name not in named and is_identifier(name, table[name])}
    return found | dict.fromkeys(columns.ignore, "by --ignore")


def _summaries(table: Mapping[str, Any], targets: Sequence[Target], left_out: Mapping[str, str]) -> list[ColumnSummary]:
    kinds = {target.name: target.kind for target in targets}
    found = [summarize(name, table[name], "target", kind) for name, kind in kinds.items()]
    others = [name for name in table if name not in kinds]
    found += [summarize(name, table[name], "feature") for name in others if name not in left_out]
    return found + [summarize(name, table[name], "left out", note=note) for name, note in left_out.items()]


def _version(path: Path) -> tuple[int, int]:
    """Return what changes when a file is written again; a missing file is an error of its reader."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else (0, 0)
