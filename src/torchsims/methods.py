"""Every method by its name: what ``torchsims methods`` lists, and what trains when a command names one.

The names come from :mod:`torchsims.scalarizations`, :mod:`torchsims.aggregations` and the steppers themselves; a new
method needs no line here.

Example:
    >>> from torch import nn
    >>> from torchsims.methods import Method
    >>> method = Method("sims:tau=1")
    >>> method.label, method.family
    ('SIMS, tau 1', 'merit function')
    >>> stepper = method.build(nn.Linear(2, 2), tasks=["a", "b"], lr=1e-3)
    >>> stepper.tau
    1.0
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import isabstract, signature
from typing import Any, final

import torch
from torch import nn
from torch.optim import Adam

from torchsims import aggregations, normalizers, scalarizations
from torchsims._specs import choose, convert, parameters, plain, split_spec
from torchsims.aggregations import Aggregation
from torchsims.normalizers import Normalizer
from torchsims.scalarizations import Scalarization
from torchsims.steppers import FOOPS, SIMS, Aggregated, OptimizerFactory, Scalarized, Stepper
from torchsims.transforms import Asinh, Identity, Log, Power, Transform

__all__ = ["Method", "catalogue", "names"]

OWN = "own"  # the transformation that a method is made for
RATIO = 2.0  # how many times faster the challenger moves than the model

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
    **{plain(name): getattr(normalizers, name) for name in normalizers.__all__ if name != "Normalizer"},
}

Rates = Callable[[float], OptimizerFactory]


class Family(ABC):
    """Methods that one stepper runs.

    Attributes:
        label: what the family is called.
        passes: forward and backward passes of a step.
        defaults: the options that a text can give, with their defaults.
    """

    label: str
    passes: str
    defaults: dict[str, Any]

    @abstractmethod
    def build(self, model: nn.Module, tasks: Sequence[str], rate: Rates, options: dict[str, Any]) -> Stepper[Any]:
        """Return the stepper; ``rate`` makes a factory of optimizers from a multiple of the learning rate."""


@final
class _Merit(Family):
    label = "merit function"
    passes = "2 + 2 joint, 3 + 2 sequential"

    def __init__(self, stepper: type[SIMS], transform: bool) -> None:
        self._stepper = stepper
        own = {"transform": "ln"} if transform else {}
        # Joint by default: a single process has the room, and it is the faster of two ways to the same numbers.
        self.defaults = {**parameters(SIMS), "evaluation": "joint", "ratio": RATIO, **own, "normalizer": "none"}

    def build(self, model: nn.Module, tasks: Sequence[str], rate: Rates, options: dict[str, Any]) -> Stepper[Any]:
        options = {"evaluation": "joint", **options}
        if not 0 < (ratio := options.pop("ratio", RATIO)) < float("inf"):
            raise ValueError(f"Option `ratio` should be positive. Found `ratio={ratio}`.")
        if "transform" in options:
            options["transform"] = TRANSFORMS[choose("transform", options["transform"], TRANSFORMS)]()
        return self._stepper(model, outer=rate(1.0), inner=rate(ratio), normalize=_normalizer(options), **options)


@final
class _Scalarized(Family):
    label = "loss-level"

    def __init__(self, scalarization: type[Scalarization]) -> None:
        self._scalarization = scalarization
        self.passes = "2 + 1" if scalarization.observes else "1 + 1"
        self.defaults = {**parameters(scalarization), "normalizer": "none"}

    def build(self, model: nn.Module, tasks: Sequence[str], rate: Rates, options: dict[str, Any]) -> Stepper[Any]:
        options = dict(options)
        normalizer = _normalizer(options)
        if "tasks" in signature(self._scalarization).parameters:
            options["tasks"] = list(tasks)
        scalarization = self._scalarization(**options).to(next(model.parameters()).device)
        return Scalarized(model, scalarization, outer=rate(1.0), normalize=normalizer)


@final
class _Aggregated(Family):
    label = "gradient-level"
    passes = "1 + m"

    def __init__(self, aggregation: type[Aggregation]) -> None:
        self._aggregation = aggregation
        self.defaults = {**parameters(aggregation), "transform": OWN, "normalizer": "none"}

    def build(self, model: nn.Module, tasks: Sequence[str], rate: Rates, options: dict[str, Any]) -> Stepper[Any]:
        options = dict(options)
        normalizer = _normalizer(options)
        name = options.pop("transform", OWN)
        transform = None if name == OWN else TRANSFORMS[choose("transform", name, TRANSFORMS)]()
        if "tasks" in signature(self._aggregation).parameters:
            options["tasks"] = list(tasks)
        aggregation = self._aggregation(**options).to(next(model.parameters()).device)
        return Aggregated(model, aggregation, outer=rate(1.0), transform=transform, normalize=normalizer)


def _normalizer(options: dict[str, Any]) -> Normalizer | None:
    return NORMALIZERS[choose("normalizer", plain(options.pop("normalizer", "none")), NORMALIZERS)]()


def _families() -> Mapping[str, tuple[str, Family]]:
    """Return label and family of every method, by its plain name."""
    loss_level = [(name, getattr(scalarizations, name)) for name in scalarizations.__all__]
    gradient_level = [(name, getattr(aggregations, name)) for name in aggregations.__all__]
    found: list[tuple[str, Family]] = [
        ("SIMS", _Merit(SIMS, transform=True)),
        ("FOOPS", _Merit(FOOPS, transform=False)),
        *((name, _Scalarized(kind)) for name, kind in loss_level if _final(kind)),
        *((name, _Aggregated(kind)) for name, kind in gradient_level if _final(kind)),
    ]
    return {plain(label): (label, family) for label, family in found}


def _final(kind: object) -> bool:
    """Return whether something is a method, and not the base class of some or a function.

    `FixedWeights` is left out: its options are the names of tasks, which are not known here.
    """
    return isinstance(kind, type) and not isabstract(kind) and kind is not scalarizations.FixedWeights


def names() -> tuple[str, ...]:
    """Return the names of all methods.

    Example:
        >>> names()[:4]
        ('sims', 'foops', 'dwa', 'ew')
    """
    return tuple(_families())


def catalogue() -> list[dict[str, str]]:
    """Return a row a method: its name, family, forward + backward passes of a step, and options with their defaults.

    Methods are listed whether the packages that they need are there or not.

    Example:
        >>> catalogue()[0]["family"]
        'merit function'
    """
    return [
        {
            "method": name,
            "family": family.label,
            "passes": family.passes,
            "options": ", ".join(f"{key}={_short(value)}" for key, value in family.defaults.items()),
        }
        for name, (_, family) in _families().items()
    ]


@final
class Method:
    """A method by name, with the options that differ from its defaults.

    Args:
        text: a name, in any spelling of capitals and hyphens, and options: ``"sims:tau=1:transform=sqrt"``. Beside the
            arguments of the class there are ``ratio`` (rate of the challenger over that of the model), ``transform``
            and ``normalizer``.

    Attributes:
        name: the plain name.
        options: the options that were given.
        label: what tables and plots call it.

    Example:
        >>> Method("imtl-l").name
        'imtll'
        >>> Method("sims:tua=1")
        Traceback (most recent call last):
        ValueError: There is no option of method `sims` `tua`. Did you mean `tau`? The names are tau, ...
    """

    def __init__(self, text: str) -> None:
        name, options = split_spec(text)
        families = _families()
        self.name = choose("method", name, families)
        label, self._family = families[name]
        self.options = convert(f"method `{name}`", options, self._family.defaults)
        self.label = ", ".join([label, *(f"{key} {_short(value)}" for key, value in self.options.items())])
        with torch.random.fork_rng(devices=[]):  # what is wrong with an option is said now
            self.build(nn.Linear(1, 1), ["a", "b"], lr=1e-3)

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{key}={_short(value)}" for key, value in sorted(self.options.items()))])

    @property
    def family(self) -> str:
        """What kind of method it is."""
        return self._family.label

    @property
    def passes(self) -> str:
        """Forward and backward passes of a step."""
        return self._family.passes

    @property
    def defaults(self) -> Mapping[str, Any]:
        """All options and their defaults."""
        return self._family.defaults

    def build(
        self,
        model: nn.Module,
        tasks: Iterable[str],
        lr: float,
        optimizer: Callable[..., Any] = Adam,
        seed: int = 0,
    ) -> Stepper[Any]:
        """Return the stepper that trains ``model``.

        Args:
            model: the module.
            tasks: the names of the losses.
            lr: the learning rate of the model; the challenger has ``ratio`` times as much.
            optimizer: makes an optimizer from named parameters and ``lr``.
            seed: of a method with random numbers of its own, unless its options have one.
        """
        options = ({"seed": seed} if "seed" in self._family.defaults else {}) | self.options

        def rate(factor: float) -> OptimizerFactory:
            return partial(optimizer, lr=factor * lr)

        return self._family.build(model, list(tasks), rate, options)


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)
