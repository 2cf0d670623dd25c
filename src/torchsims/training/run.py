"""What a training run found: one class from the training loop to the page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan, nan
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import numpy.typing as npt

from torchsims.training.config import RunConfig
from torchsims.training.plain import as_type

if TYPE_CHECKING:  # a page needs no torch
    from torchsims.diagnosis import GradientValues

Metrics: TypeAlias = Mapping[str, Mapping[str, float]]
"""Task, then metric, then value; NaN after a divergence."""

Samples: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays of some test images: ``"image"``, ``"truth/TASK"`` and ``"prediction/TASK"``."""

Curve: TypeAlias = list[float]

COSINES = "cosines "  # before the name of the first task, in the sums of the open epoch
MEASURED = ("shares", "cosines", "influence")  # curves that older runs do not have


@dataclass(eq=False)
class History:
    """Curves of a run: one number per epoch, losses in the units of the data.

    The open epoch is kept as sums, so that its size does not grow with the number of steps.

    Example:
        >>> history = History()
        >>> history.record({"depth": 2.0}, {"depth": 1.0})
        >>> history.record({"depth": 4.0}, {"depth": 1.0})
        >>> history.end_epoch({"depth": {"abs_err": 0.5}})
        >>> history.losses, history.epochs
        ({'depth': [3.0]}, 1)
    """

    losses: dict[str, Curve] = field(default_factory=dict)  # mean training loss, by task; NaN without a label
    weights: dict[str, Curve] = field(default_factory=dict)  # mean weight, by task
    merit: Curve = field(default_factory=list)  # empty for methods without one
    validation: dict[str, dict[str, Curve]] = field(default_factory=dict)  # metrics of the validation split
    shares: dict[str, Curve] = field(default_factory=dict)  # mean share of the gradients, by task, if it was measured
    cosines: dict[str, dict[str, Curve]] = field(default_factory=dict)  # mean cosine of the gradients of two tasks
    influence: dict[str, Curve] = field(default_factory=dict)  # mean share in the weighted sum of the losses, by task
    open_sums: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """How many epochs are finished."""
        return len(next(iter(self.losses.values()), ()))

    def record(
        self,
        losses: Mapping[str, float],
        weights: Mapping[str, float],
        merit: float | None = None,
        gradients: "GradientValues | None" = None,
        influence: Mapping[str, float] | None = None,
    ) -> None:
        """Add one step to the open epoch."""
        parts = {"losses": losses, "weights": weights, "merit": {} if merit is None else {"": merit}}
        parts |= {"influence": influence} if influence else {}
        if gradients is not None:
            parts |= {"shares": gradients.shares}
            parts |= {f"{COSINES}{task}": row for task, row in gradients.cosines.items()}
        for part, values in parts.items():
            sums = self.open_sums.setdefault(part, {})
            for name, value in values.items():
                entry = sums.setdefault(name, [0.0, 0])
                if not isnan(value):
                    entry[0] += value
                    entry[1] += 1

    def end_epoch(self, validation: Metrics) -> None:
        """Close the open epoch."""
        means = {
            part: {name: total / count if count else nan for name, (total, count) in sums.items()}
            for part, sums in self.open_sums.items()
        }
        before = self.epochs
        for curves, values in ((self.losses, means.get("losses", {})), (self.weights, means.get("weights", {}))):
            for task, value in values.items():
                curves.setdefault(task, []).append(value)
        self.merit += means.get("merit", {}).values()
        for task, metrics in validation.items():
            for metric, value in metrics.items():
                self.validation.setdefault(task, {}).setdefault(metric, []).append(value)
        _extend(self.shares, means.get("shares", {}), before)
        _extend(self.influence, means.get("influence", {}), before)
        for task in self.cosines.keys() | {part.removeprefix(COSINES) for part in means if part.startswith(COSINES)}:
            _extend(self.cosines.setdefault(task, {}), means.get(f"{COSINES}{task}", {}), before)
        self.open_sums = {}

    def to_dict(self) -> dict[str, Any]:
        """Return the curves as JSON and checkpoints hold them."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "History":
        """Return the history that :meth:`to_dict` described; null stands for NaN."""
        hints = {name: hint for name, hint in get_type_hints(cls).items() if name in values or name not in MEASURED}
        history = cls(**{name: as_type(values[name], hint) for name, hint in hints.items()})
        curves = [*history.losses.values(), *history.weights.values(), *history.shares.values()]
        curves += history.influence.values()
        curves += [curve for row in history.cosines.values() for curve in row.values()]
        if any(len(curve) != history.epochs for curve in curves) or len(history.merit) not in (0, history.epochs):
            raise ValueError("The curves of a history should have one number per epoch. Found others.")
        if any(len(entry) != 2 for sums in history.open_sums.values() for entry in sums.values()):
            raise ValueError("The sums of an open epoch should have a total and a count. Found others.")
        if not all(history.validation.values()):
            raise ValueError("Every task that was validated should have a metric. Found one without.")
        return history


def _extend(curves: dict[str, Curve], values: Mapping[str, float], before: int) -> None:
    """Add an epoch to curves; NaN where nothing was measured in it, or in the ``before`` epochs before it."""
    for name in [*curves, *(name for name in values if name not in curves)]:
        curves.setdefault(name, [nan] * before).append(values.get(name, nan))


@dataclass(frozen=True)
class DataSummary:
    """What a page says of the data.

    Example:
        >>> DataSummary({"rows": "800 training, 100 validation, 100 test"}).columns
        ()
    """

    facts: Mapping[str, str]  # such as the number of items, by name
    columns: Sequence[Mapping[str, str]] = ()  # how the columns of a table were read


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, or one that failed.

    Example:
        >>> run = Run("SIMS", RunConfig(seed=1), {"seg": {"miou": 0.7}}, {"seg": {"miou": True}})
        >>> run.seed, run.failure
        (1, None)
    """

    label: str  # method and whatever else sets the run apart; runs with one label differ in seed and split only
    config: RunConfig
    metrics: Metrics  # of the test split at the selected epoch
    higher_is_better: Mapping[str, Mapping[str, bool]]  # by task and metric
    history: History = field(default_factory=History)
    passes: str = ""  # forward and backward passes per step, such as "2+2"
    family: str = ""  # what kind of method it is
    rescaled: str | None = None  # label of the same run without rescaled losses, if losses are rescaled
    selected: int = 0  # number of the selected epoch, from 1
    last_metrics: Metrics | None = None  # of the test split after the last epoch, if another epoch was selected
    starved: Sequence[str] = ()  # tasks that got almost no weight although they could be learned
    failure: str | None = None  # why the run failed, if it did; its metrics are NaN then
    seconds: Mapping[str, float] = field(default_factory=dict)  # where the time went, by part
    samples: Samples | None = None
    data: DataSummary | None = None  # of a run that is not older than this field
    fingerprint: str = ""  # digest of the data it was trained on; empty if there is none, or the run is older

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.seed

    @property
    def split(self) -> int:
        """Which random split of its data it was trained on."""
        return self.config.split

    def to_dict(self) -> dict[str, Any]:
        """Return everything but config and samples, as JSON holds it."""
        names = [name for name in self.__dataclass_fields__ if name not in ("config", "samples", "history", "data")]
        data = None if self.data is None else asdict(self.data)
        return {name: getattr(self, name) for name in names} | {"history": self.history.to_dict(), "data": data}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], config: RunConfig, samples: Samples | None = None) -> "Run":
        """Return the run that :meth:`to_dict` described."""
        rest: dict[str, Any] = {"config": config, "history": History.from_dict(values["history"]), "samples": samples}
        rest["data"] = _data_summary(values.get("data"))
        rest["fingerprint"] = as_type(values.get("fingerprint", ""), str)
        hints = {name: hint for name, hint in get_type_hints(cls).items() if name not in rest}
        run = cls(**rest, **{name: as_type(values[name], hint) for name, hint in hints.items()})
        names = [
            {task: set(of) for task, of in part.items()}
            for part in (run.higher_is_better, run.metrics, run.last_metrics)
            if part
        ]
        if any(found != names[0] for found in names):
            raise ValueError("Every metric should have a direction. Found others.")
        return run


def _data_summary(values: Any) -> DataSummary | None:
    if values is None:
        return None
    hints = get_type_hints(DataSummary)
    return DataSummary(**{name: as_type(values[name], hint) for name, hint in hints.items()})
