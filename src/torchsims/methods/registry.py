"""Every method by name: built in, registered by an installed package, or named as ``package.module:Class``."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import isabstract
from typing import Any, final

import torch
from torch import nn
from torch.optim import Adam

from torchsims import aggregations, scalarizations
from torchsims.methods.families import find_family
from torchsims.registry import Registry, Spec, normalize_name, option_text
from torchsims.spaces import Space
from torchsims.steppers import FOOPS, SIMS, OptimizerFactory, Regularizer, Stepper


def _builtin() -> dict[str, type]:
    """Return every method that is built in, without base classes and functions: a new one needs no line here."""
    found = [getattr(module, name) for module in (scalarizations, aggregations) for name in module.__all__]
    kinds = [SIMS, FOOPS, *(kind for kind in found if isinstance(kind, type) and not isabstract(kind))]
    return {normalize_name(str(getattr(kind, "short_name", None) or kind.__name__)): kind for kind in kinds}


METHODS = Registry("method", "torchsims.methods", _builtin)
"""The registry of methods; other packages add theirs with the entry-point group ``torchsims.methods``."""


def catalogue() -> list[dict[str, str]]:
    """Return one row per method: name, family, forward + backward passes per step, options with their defaults.

    Methods are listed whether the packages they need are installed or not.

    Example:
        >>> catalogue()[0]["family"]
        'merit function'
    """
    families = {name: find_family(METHODS.load(name), name) for name in METHODS.names()}
    return [
        {
            "method": name,
            "family": family.label,
            "passes": family.passes,
            "options": ", ".join(f"{key}={option_text(value)}" for key, value in family.defaults.items()),
        }
        for name, family in families.items()
    ]


@final
class Method:
    """A method by name, with the options that differ from its defaults.

    Args:
        method: a name and options, ``"sims:tau=1:transform=sqrt"``, or a scalarization, an aggregation or a method of
            TorchJD, of which every stepper gets a copy. Beside the arguments of the class, the options are ``ratio``
            (learning rate of the challenger over that of the model), ``transform``, ``normalizer`` and, for
            gradient-level methods, ``every`` (steps from one computation of the weights to the next).

    Example:
        >>> Method("imtl-l").name
        'imtll'
        >>> Method("sims:tua=1")
        Traceback (most recent call last):
        ValueError: There is no option of method `sims` `tua`. Did you mean `tau`? The names are tau, ...
    """

    def __init__(self, method: Any) -> None:
        if isinstance(method, str):
            spec = Spec.parse(method)
            self.name, kind = spec.name, METHODS.load(spec.name)
        else:
            kind, spec = method, Spec("")
            self.name = f"{type(method).__module__}:{type(method).__qualname__}"
        self._family = find_family(kind, self.name)
        self.options = self._family.convert(f"method `{self.name}`", spec.options)
        self._texts = _texts(self.options)
        self.class_name = (kind if isinstance(kind, type) else type(kind)).__name__
        self.label = ", ".join([self.class_name, *(f"{key} {text}" for key, text in self._texts.items())])

    def __str__(self) -> str:
        return str(Spec(self.name, dict(sorted(self._texts.items()))))

    @property
    def family(self) -> str:
        """Name of the family."""
        return self._family.label

    @property
    def passes(self) -> str:
        """Forward + backward passes per step."""
        return self._family.passes_with(self.options)

    def count_passes(self, tasks: int, *, evaluation: str = "auto", micro_batches: int = 1) -> str:
        """Return the forward and backward passes per step with so many tasks; a mean over steps, if they differ.

        Example:
            >>> Method("sims").count_passes(3), Method("mgda").count_passes(3), Method("mgda:every=4").count_passes(3)
            ('2+2', '1+3', '1+1.5')
        """
        options = ({} if evaluation == "auto" else {"evaluation": evaluation}) | self.options
        forward, backward = self._family.count_passes(options, tasks, micro_batches)
        return f"{forward:.3g}+{backward:.3g}"

    @property
    def by_task(self) -> bool:
        """Whether its options are numbers by task, such as weights chosen by hand."""
        return self._family.by_task

    @property
    def defaults(self) -> Mapping[str, Any]:
        """All options with their defaults."""
        return self._family.defaults

    def search_space(self, tasks: Iterable[str]) -> dict[str, Space]:
        """Return what is worth trying for the options that are not given.

        Example:
            >>> Method("stch:normalize=yes").search_space(["a", "b"])
            {'mu': Range(low=0.1, high=10.0, log=True)}
        """
        found = self._family.search_space(list(tasks))
        return {name: space for name, space in found.items() if name not in self._texts}

    def check(self, tasks: Iterable[str], preference: Mapping[str, float] | None = None) -> None:
        """Raise the error that a bad option leads to; draw no random number."""
        with torch.random.fork_rng(devices=[]):
            self.build(nn.Linear(1, 1), tasks, lr=1e-3, optimizer=_NoSteps, preference=preference)

    def build(
        self,
        model: nn.Module,
        tasks: Iterable[str],
        lr: float,
        optimizer: Callable[..., Any] = Adam,
        *,
        evaluation: str = "auto",
        seed: int = 0,
        regularizer: Regularizer | None = None,
        preference: Mapping[str, float] | None = None,
    ) -> Stepper[Any]:
        """Return the stepper that trains ``model``.

        The learning rate of the challenger is ``ratio`` times that of the model. ``evaluation`` (``"sequential"`` or
        ``"joint"``, for methods with two copies) and ``seed`` (of a method that draws random numbers) are defaults of
        the options. ``regularizer`` is a term that belongs to no task. ``preference`` says by task how much it matters,
        for methods that can be told.

        Example:
            >>> Method("sims:tau=1").build(nn.Linear(2, 2), tasks=["a", "b"], lr=1e-3).tau
            1.0
        """
        given = {"seed": seed} | ({} if evaluation == "auto" else {"evaluation": evaluation})
        options = {key: value for key, value in given.items() if key in self.defaults} | self.options
        if preference is not None:
            if not self._family.takes_preference:
                raise ValueError(f"Method `{self.name}` has no preference. Found one for {sorted(preference)}.")
            options["preference"] = dict(preference)

        def rate(factor: float) -> OptimizerFactory:
            return partial(optimizer, lr=factor * lr)

        return self._family.build(model, list(tasks), rate, options, regularizer)


class _NoSteps:
    """Takes the place of an optimizer that is never used: the first one of torch imports its compiler, for a second."""

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], lr: float) -> None:
        self.param_groups = [{"params": [parameter for _, parameter in named], "lr": lr}]

    def step(self) -> None:
        """Take no step."""


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of options; numbers by task stand for themselves."""
    texts: dict[str, str] = {}
    for key, value in options.items():
        by_task = value if isinstance(value, Mapping) else {key: value}
        texts |= {name: option_text(entry) for name, entry in by_task.items()}
    return texts
