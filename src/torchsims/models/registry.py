"""Every architecture by name: built in, registered by an installed package, or ``package.module:Class``."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import nn

from torchsims.models.single_task import SingleTask
from torchsims.registry import Registry, Spec, choose, convert_options, is_class_path, option_text
from torchsims.spaces import Space

__all__ = ["MODELS", "SINGLE_TASK", "Architecture", "network_name"]

SINGLE_TASK = "stl"
"""Name of the model with one network per task."""

_BUILTIN = {
    "hps": "torchsims.models.dense.hps:HPS",
    "crossstitch": "torchsims.models.dense.cross_stitch:CrossStitch",
    "nddr": "torchsims.models.dense.nddr:NDDR",
    "mtan": "torchsims.models.dense.mtan:MTAN",
    "densemtl": "torchsims.models.dense.densemtl:DenseMTL",
    "swinmtl": "torchsims.models.dense.swinmtl:SwinMTL",
    "vtagml": "torchsims.models.dense.vtagml:VTAGML",
    "sam2": "torchsims.models.sam2.model:SAM2MTL",
    "mlp": "torchsims.models.tabular.mlp:MLP",
    "sharedbottom": "torchsims.models.tabular.shared_bottom:SharedBottom",
    "mmoe": "torchsims.models.tabular.mmoe:MMoE",
    "ple": "torchsims.models.tabular.ple:PLE",
    "esmm": "torchsims.models.tabular.esmm:ESMM",
    "lenet": "torchsims.models.lenet:LeNet",
}
_ALONE = {"esmm": "sharedbottom"}  # a product of two tasks needs both; one task alone has a tower

MODELS = Registry("model", "torchsims.models", lambda: _BUILTIN)
"""Network classes by name. A class is called with the outputs by task, what the data asks for, and its options.

A class may have a ``title``, which tables call it by. It may have two static methods that take its options:
``validate`` raises for a bad value, and is then called instead of making the network to check it; ``check_sources``
raises if a file that it reads is missing.
"""


@final
@dataclass(frozen=True)
class Architecture:
    """A network class with its options, for all tasks or one network per task.

    Attributes:
        name: name in :data:`MODELS`, or ``package.module:Class``.
        options: values of its options.
        single_task: whether there is one network per task.

    Example:
        >>> architecture = Architecture.parse("stl:width=8", known=["hps", "sam2"])
        >>> str(architecture), type(architecture.build({"depth": 1}, {})).__name__
        ('stl:of=hps:width=8', 'SingleTask')
    """

    name: str
    options: Mapping[str, Any]
    single_task: bool = False

    @classmethod
    def parse(cls, text: str, known: Sequence[str]) -> "Architecture":
        """Return the architecture that a text names; raise for an unknown name or a bad option.

        Args:
            text: a name with options; empty for the first known name.
            known: the built-in names that suit the data.
        """
        spec = Spec.parse(text or known[0])
        single, name = spec.name == SINGLE_TASK, network_name(str(spec)) or known[0]
        options = {key: value for key, value in spec.options.items() if not (single and key == "of")}
        if not is_class_path(name):
            installed = [other for other in MODELS.names() if other not in _BUILTIN]
            choose("model", name, [*known, *installed] if single else [*known, *installed, SINGLE_TASK])
        name = _ALONE.get(name, name) if single else name
        network = _load(name)
        values = convert_options(f"model `{name}`", options, network_options(network))
        if validate := getattr(network, "validate", None):
            validate(**values)
        return cls(name, values, single)

    def __str__(self) -> str:
        options = {key: option_text(value) for key, value in self.options.items()}
        return str(Spec(SINGLE_TASK, {"of": self.name, **options}) if self.single_task else Spec(self.name, options))

    def as_single_task(self) -> "Architecture":
        """Return the same architecture with one network per task."""
        return replace(self, name=_ALONE.get(self.name, self.name), single_task=True)

    def build(self, outputs: Mapping[str, int], arguments: Mapping[str, Any]) -> nn.Module:
        """Return a new network.

        Args:
            outputs: outputs of the network, by task.
            arguments: keyword arguments that the data asks for.
        """
        network, given = self._bind(outputs, arguments)
        if self.single_task:
            return SingleTask(outputs, lambda own: network(own, **given))
        return network(outputs, **given)

    def check(self, outputs: Mapping[str, int], arguments: Mapping[str, Any]) -> None:
        """Raise if :meth:`build` would reject an argument, without allocating memory for the network."""
        network, _ = self._bind(outputs, arguments)
        if hasattr(network, "validate"):
            return  # :meth:`parse` called it
        # Where an operation has no meta implementation, errors are found when the network is built.
        with suppress(NotImplementedError, RuntimeError), torch.random.fork_rng(devices=[]), torch.device("meta"):
            self.build(outputs, arguments)

    def _bind(
        self, outputs: Mapping[str, int], arguments: Mapping[str, Any]
    ) -> tuple[Callable[..., nn.Module], dict[str, Any]]:
        """Return the class and its keyword arguments; raise if it does not take them."""
        network, given = _load(self.name), {**arguments, **self.options}
        try:
            _signature(network).bind(outputs, **given)
        except TypeError as error:
            expected = ", ".join(["outputs", *given])
            raise ValueError(f"Model `{self.name}` should take the arguments {expected}. Found: {error}.") from error
        return network, given

    def search_space(self) -> dict[str, Space]:
        """Return what its class says is worth trying, by option.

        Example:
            >>> sorted(Architecture("mlp", {}).search_space())
            ['dropout', 'hidden', 'layers']
        """
        return dict(getattr(_load(self.name), "search_space", {}))

    def check_sources(self) -> None:
        """Raise if a file that the network is read from is missing."""
        if check := getattr(_load(self.name), "check_sources", None):
            check(**self.options)


def network_name(text: str) -> str:
    """Return the name of the network class of a model, without importing it; empty for the default of the data.

    Example:
        >>> network_name("stl:of=package.module:Net:width=8"), network_name("hps:width=8"), network_name("stl")
        ('package.module:Net', 'hps', '')
    """
    spec = Spec.parse(text)
    return Spec.parse(spec.options.get("of", "")).name if spec.name == SINGLE_TASK else spec.name


def network_title(name: str) -> str:
    """Return what tables call a model: the ``title`` of its class, if it has one, or the name of the class.

    Example:
        >>> network_title("crossstitch"), network_title("densemtl"), network_title("stl"), network_title("a.b:Net")
        ('Cross-Stitch', 'DenseMTL', 'STL', 'Net')
    """
    if name == SINGLE_TASK:
        return name.upper()
    if is_class_path(name):
        return name.rpartition(":")[2]
    kind = MODELS.load(name)
    return str(getattr(kind, "title", kind.__name__))


def network_options(network: type[nn.Module]) -> dict[str, Any]:
    """Return the options of a network class with their defaults; ``**options`` are those of its base class.

    Example:
        >>> from torchsims.models import HPS
        >>> network_options(HPS)["encoder"]
        'small'
    """
    found = _signature(network).parameters.values()
    return {p.name: p.default for p in found if isinstance(p.default, bool | int | float | str)}


def _signature(network: type[nn.Module]) -> inspect.Signature:
    """Return the signature of a network class, with ``**options`` replaced by the keywords of its base class."""
    own = inspect.signature(network)
    base = network.__bases__[0]
    if base is nn.Module or not any(p.kind is p.VAR_KEYWORD for p in own.parameters.values()):
        return own
    named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    known = {p.name for p in named}
    rest = [p.replace(kind=p.KEYWORD_ONLY) for p in _signature(base).parameters.values() if p.name not in known]
    return inspect.Signature([*named, *rest])


def _load(name: str) -> type[nn.Module]:
    network = MODELS.load(name)
    if not (isinstance(network, type) and issubclass(network, nn.Module)):
        raise ValueError(f"Model `{name}` should be a subclass of torch.nn.Module.")  # noqa: TRY004  # bad input
    return network
