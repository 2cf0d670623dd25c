"""The families of methods: how the stepper of a class is made from texts, numbers and a learning rate."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from math import inf
from typing import Any, TypeAlias, final

from torch import nn

from torchsims import normalizers
from torchsims.aggregations import Aggregation
from torchsims.normalizers import Normalizer
from torchsims.registry import choose, convert_options, convert_value, normalize_name, option_defaults
from torchsims.scalarizations import Scalarization
from torchsims.spaces import Choice, Range, Space
from torchsims.steppers import SIMS, Aggregated, OptimizerFactory, Regularizer, Scalarized, Stepper
from torchsims.transforms import Asinh, FlooredLog, Identity, Log, Power, Transform

RATIO = 2.0  # learning rate of the challenger over that of the model
DEFAULT = "default"  # the transform that a method is defined with

TRANSFORMS: dict[str, Callable[[], Transform]] = {
    "ln": Log,
    "x": Identity,
    "x^2": lambda: Power(2.0),
    "sqrt": lambda: Power(0.5),
    "asinh0.1": lambda: Asinh(0.1),
    "asinh0.01": lambda: Asinh(0.01),
}
NORMALIZERS: dict[str, Callable[[], Normalizer | None]] = {
    "none": lambda: None,
    **{normalize_name(name): getattr(normalizers, name) for name in normalizers.__all__ if name != "Normalizer"},
}

MakeOptimizer: TypeAlias = Callable[[float], OptimizerFactory]
"""Makes an optimizer factory from a multiple of the learning rate."""


class Family(ABC):
    """How the stepper of a method is made: of a class, or of an object, of which every stepper gets a copy."""

    label: str  # name of the family
    passes: str  # forward + backward passes per step
    defaults: dict[str, Any]  # options that a text can give
    by_task = False  # whether options are numbers by task

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._own = option_defaults(kind) if isinstance(kind, type) else {}

    @property
    def takes_preference(self) -> bool:
        """Whether it can be told which tasks matter more."""
        return isinstance(self._kind, type) and "preference" in signature(self._kind).parameters

    def search_space(self, tasks: Sequence[str]) -> dict[str, Space]:
        """Return what is worth trying, by option."""
        return dict(getattr(self._kind, "search_space", {}))

    def passes_with(self, options: Mapping[str, Any]) -> str:
        """Return the forward + backward passes per step with some options."""
        return self.passes

    @abstractmethod
    def count_passes(self, options: Mapping[str, Any], tasks: int, micro_batches: int) -> tuple[float, float]:
        """Return the forward and the backward passes of every item, the mean over steps, with some options."""

    def convert(self, what: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the texts of options as values."""
        return convert_options(what, options, self.defaults)

    @abstractmethod
    def build(
        self,
        model: nn.Module,
        tasks: Sequence[str],
        optimizer: MakeOptimizer,
        options: dict[str, Any],
        regularizer: Regularizer | None = None,
    ) -> Stepper[Any]:
        """Return the stepper that trains ``model``."""

    def _make(self, model: nn.Module, tasks: Sequence[str], options: dict[str, Any]) -> nn.Module:
        """Return the module of a loss-level or gradient-level method, on the device of the model."""
        if not isinstance(self._kind, type):
            made: nn.Module = copy.deepcopy(self._kind)
        else:
            known = signature(self._kind).parameters
            if "tasks" in known and ("preference" not in known or "preference" in options):
                options["tasks"] = list(tasks)
            made = self._kind(**options)
        return made.to(next(model.parameters()).device)


@final
class MeritFamily(Family):
    """SIMS, FOOPS and subclasses of SIMS."""

    label = "merit function"
    passes = "2 + 2 joint, 3 + 2 sequential"

    def __init__(self, kind: type[SIMS]) -> None:
        super().__init__(kind)
        own = {"transform": "ln", "floor": 0.0} if kind is SIMS else {}
        # Joint by default: a single process has the room, and it is the faster of two ways to the same numbers.
        self.defaults = {**self._own, "evaluation": "joint", "ratio": RATIO, **own, "normalizer": "none"}

    def count_passes(self, options: Mapping[str, Any], tasks: int, micro_batches: int) -> tuple[float, float]:
        together = options.get("evaluation", "joint") == "joint"
        again = options.get("order") == "alternating"  # the losses of the challenger after its step
        return (4 if micro_batches > 1 else 2 if together else 3) + again, 2

    def search_space(self, tasks: Sequence[str]) -> dict[str, Space]:
        usual: dict[str, Space] = {"tau": Range(0.1, 10.0), "ratio": Range(1.2, 10.0), "augment": Choice((0.0, 0.1))}
        return usual | super().search_space(tasks)

    def build(
        self,
        model: nn.Module,
        tasks: Sequence[str],
        optimizer: MakeOptimizer,
        options: dict[str, Any],
        regularizer: Regularizer | None = None,
    ) -> Stepper[Any]:
        options = {"evaluation": "joint", **options}
        if not 0 < (ratio := options.pop("ratio", RATIO)) < inf:
            raise ValueError(f"Option `ratio` should be positive. Found `ratio={ratio}`.")
        if "transform" in options:
            options["transform"] = _transform(options["transform"])
        if floor := options.pop("floor", 0.0):
            if "transform" in options and not isinstance(options["transform"], Log):
                raise ValueError(f"Option `floor` should be 0 with a transform other than ln. Found `floor={floor}`.")
            options["transform"] = FlooredLog(floor)
        if regularizer is not None:  # a subclass that has no such argument trains models without a term
            options["regularizer"] = regularizer
        stepper: Stepper[Any] = self._kind(
            model, outer=optimizer(1.0), inner=optimizer(ratio), normalize=_normalizer(options), **options
        )
        return stepper


@final
class ScalarizedFamily(Family):
    """Loss-level methods: scalarizations, and scalarizers of TorchJD."""

    label = "loss-level"

    def __init__(self, kind: Any) -> None:
        super().__init__(kind)
        self.passes = "2 + 1" if getattr(kind, "observes", False) else "1 + 1"
        self.defaults = {**self._own, "normalizer": "none"}
        by_task = getattr(kind, "options_by_task", None)  # none of TorchJD's has it
        self._by_task: str | None = by_task if isinstance(kind, type) else None
        self.by_task = self._by_task is not None

    def count_passes(self, options: Mapping[str, Any], tasks: int, micro_batches: int) -> tuple[float, float]:
        return int(self.passes[0]) + (micro_batches > 1), 1

    def convert(self, what: str, options: Mapping[str, str]) -> dict[str, Any]:
        if self._by_task is None:
            return super().convert(what, options)
        known = {key: text for key, text in options.items() if key in self.defaults}
        by_task = {key: convert_value(key, text, float) for key, text in options.items() if key not in known}
        return super().convert(what, known) | {self._by_task: by_task}

    def search_space(self, tasks: Sequence[str]) -> dict[str, Space]:
        found = super().search_space(tasks)
        if self._by_task is None or self._by_task not in found:
            return found
        by_task, first = found.pop(self._by_task), Choice((1.0,))  # a common factor acts like a learning rate
        return found | {task: by_task if number else first for number, task in enumerate(tasks)}

    def build(
        self,
        model: nn.Module,
        tasks: Sequence[str],
        optimizer: MakeOptimizer,
        options: dict[str, Any],
        regularizer: Regularizer | None = None,
    ) -> Stepper[Any]:
        normalizer = _normalizer(options)
        if self._by_task is not None:
            options[self._by_task] = dict.fromkeys(tasks, 1.0) | options.get(self._by_task, {})
        method = self._make(model, tasks, options)
        return Scalarized(model, method, outer=optimizer(1.0), normalize=normalizer, regularizer=regularizer)


@final
class AggregatedFamily(Family):
    """Gradient-level methods: aggregations, and weightings and aggregators of TorchJD."""

    label = "gradient-level"
    passes = "1 + m"

    def __init__(self, kind: Any) -> None:
        super().__init__(kind)
        self.defaults = {**self._own, "transform": DEFAULT, "every": 1, "normalizer": "none"}

    def passes_with(self, options: Mapping[str, Any]) -> str:
        every = options.get("every", 1)
        return self.passes if every == 1 else f"1 + m every {every} steps, else 1 + 1"

    def count_passes(self, options: Mapping[str, Any], tasks: int, micro_batches: int) -> tuple[float, float]:
        every = options.get("every", 1)
        between = 2 if micro_batches > 1 else 1  # forward passes of a step with weights that it holds
        return (1 + between * (every - 1)) / every, (tasks + every - 1) / every

    def build(
        self,
        model: nn.Module,
        tasks: Sequence[str],
        optimizer: MakeOptimizer,
        options: dict[str, Any],
        regularizer: Regularizer | None = None,
    ) -> Stepper[Any]:
        normalizer, name = _normalizer(options), options.pop("transform", DEFAULT)
        transform = None if name == DEFAULT else _transform(name)
        every = options.pop("every", 1)
        method = self._make(model, tasks, options)
        settings: dict[str, Any] = {"transform": transform, "every": every, "normalize": normalizer}
        return Aggregated(model, method, outer=optimizer(1.0), regularizer=regularizer, **settings)


def find_family(kind: Any, name: str) -> Family:
    """Return the family of a class of methods, or of an object of one; an error calls it ``name``."""
    found = kind if isinstance(kind, type) else type(kind)
    if issubclass(found, SIMS) and isinstance(kind, type):
        return MeritFamily(kind)
    if issubclass(found, Scalarization) or _is_torchjd(found, "torchjd.scalarization", ("Scalarizer",)):
        return ScalarizedFamily(kind)
    if issubclass(found, Aggregation) or _is_torchjd(found, "torchjd.aggregation", ("Aggregator", "Weighting")):
        return AggregatedFamily(kind)
    raise ValueError(
        f"A method should be a scalarization, an aggregation, a subclass of SIMS, or one of TorchJD's. Found `{name}`."
    )


def _is_torchjd(kind: type, module: str, bases: Sequence[str]) -> bool:
    """Return whether a class descends from a base class of TorchJD, without importing TorchJD."""
    return any(base.__module__.startswith(module) and base.__name__ in bases for base in kind.__mro__)


def _transform(name: str) -> Transform:
    return TRANSFORMS[choose("transform", name, TRANSFORMS)]()


def _normalizer(options: dict[str, Any]) -> Normalizer | None:
    return NORMALIZERS[choose("normalizer", normalize_name(options.pop("normalizer", "none")), NORMALIZERS)]()
