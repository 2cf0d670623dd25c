"""Every workload by name: built in, registered by an installed package, or ``package.module:Class``."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchsims.registry import Registry, Spec, convert_options, option_defaults
from torchsims.workloads.base import Workload

_BUILTIN = {
    "scenes": "torchsims.workloads.scenes:SceneWorkload",
    "nyuv2": "torchsims.workloads.folders:NYUv2Workload",
    "cityscapes": "torchsims.workloads.folders:CityscapesWorkload",
    "pascal": "torchsims.workloads.folders:PASCALWorkload",
    "table": "torchsims.workloads.table:TableWorkload",
    "aliccp": "torchsims.workloads.aliccp:AliCCPWorkload",
    "multimnist": "torchsims.workloads.multimnist:MultiMNISTWorkload",
}

WORKLOADS = Registry("data", "torchsims.workloads", lambda: _BUILTIN)
"""Classes of workloads by name."""


def workload_class(text: str) -> type[Workload]:
    """Return the class that a name with options names.

    Example:
        >>> workload_class("scenes:images=8").__name__
        'SceneWorkload'
    """
    name = Spec.parse(text).name
    found = WORKLOADS.load(name)
    if not (isinstance(found, type) and issubclass(found, Workload)):
        raise ValueError(f"Data `{name}` should be a subclass of torchsims.workloads.Workload.")  # noqa: TRY004  # bad input
    return found


def load_workload(text: str, tasks: Sequence[str] = (), root: str = "", **settings: Any) -> Workload:
    """Return a workload.

    Args:
        text: name of the data and its options.
        tasks: the tasks to train, in this order; those of the data by default.
        root: folder or file of the data, if it has one.
        settings: further keyword arguments of its constructor; empty ones are left out where it does not take them.

    Example:
        >>> load_workload("scene")
        Traceback (most recent call last):
        ValueError: There is no data `scene`. Did you mean `scenes`? The names are scenes, nyuv2, ...
    """
    return workload_class(text).create(_options(text), tasks=tuple(tasks), root=root, **settings)


def restore_workload(text: str, tasks: Sequence[str], root: str, state: Mapping[str, Any]) -> Workload:
    """Return a workload for predictions, from what :meth:`Workload.prediction_state` returned; it reads no data.

    Example:
        >>> restore_workload("scenes", ("depth",), "", {"shape": [32, 32]}).tasks
        ('depth',)
    """
    return workload_class(text).restore(_options(text), tasks, root, state)


def _options(text: str) -> dict[str, Any]:
    spec = Spec.parse(text)
    defaults = {key: value for key, value in option_defaults(workload_class(text)).items() if key != "root"}
    return convert_options(f"data `{spec.name}`", spec.options, defaults)
