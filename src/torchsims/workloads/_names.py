from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from torchsims._specs import choose, convert, parameters, split_spec
from torchsims.workloads._base import Workload

_CLASSES = {
    "scenes": "SceneWorkload",
    "nyuv2": "NYUv2Workload",
    "cityscapes": "CityscapesWorkload",
    "pascal": "PASCALWorkload",
    "table": "TableWorkload",
    "aliccp": "AliCCPWorkload",
    "multimnist": "MultiMNISTWorkload",
}  # by the name of the data, which is the name of its file too

NAMES = tuple(_CLASSES)
"""The data that can be trained on."""


def _find(text: str) -> tuple[type[Workload], str, dict[str, str]]:
    name, options = split_spec(text)
    choose("data", name, NAMES)
    return getattr(import_module(f"torchsims.workloads.{name}"), _CLASSES[name]), name, options


def load_workload(text: str, tasks: Sequence[str] = (), root: str | None = None) -> Workload:
    """Return a workload.

    Args:
        text: the name of the data and its options.
        tasks: the tasks to train, in this order; those of the data by default.
        root: the folder of the data, for data that has one.

    Example:
        >>> load_workload("scene")
        Traceback (most recent call last):
        ValueError: There is no data `scene`. Did you mean `scenes`? The names are scenes, nyuv2, ...
    """
    kind, name, options = _find(text)
    values = convert(f"data `{name}`", options, parameters(kind))
    return kind(**values, tasks=tuple(tasks), root=root)  # type: ignore[call-arg]  # what every workload takes


def preset(text: str, name: str) -> Mapping[str, Any]:
    """Return the settings of a run that a preset of this data stands for.

    Example:
        >>> preset("scenes", "small")["epochs"] < preset("scenes", "default")["epochs"]
        True
    """
    presets = _find(text)[0].presets
    return presets[choose("preset", name, presets)]
