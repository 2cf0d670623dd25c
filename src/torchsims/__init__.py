"""Multi-task training in PyTorch that does not depend on the units of the losses.

Names are imported when they are first used, so that the command line answers before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `__getattr__` does, for readers and type checkers
    from torchsims import aggregations, merit, normalizers, problems, scalarizations, transforms
    from torchsims.diagnosis import Diagnosis, diagnose
    from torchsims.losses import TaskLosses
    from torchsims.steppers import FOOPS, SIMS, Aggregated, MeritReport, ObjectiveReport, Report, Scalarized, Stepper
    from torchsims.training import load
    from torchsims.workloads import Predictor, TablePredictor

__version__ = "0.1.0"

__all__ = [
    "FOOPS",
    "SIMS",
    "Aggregated",
    "Diagnosis",
    "MeritReport",
    "ObjectiveReport",
    "Predictor",
    "Report",
    "Scalarized",
    "Stepper",
    "TablePredictor",
    "TaskLosses",
    "aggregations",
    "diagnose",
    "load",
    "merit",
    "normalizers",
    "problems",
    "scalarizations",
    "transforms",
]

_MODULES = ("aggregations", "merit", "normalizers", "problems", "scalarizations", "transforms")
_HOMES = {
    "Diagnosis": "torchsims.diagnosis",
    "diagnose": "torchsims.diagnosis",
    "TaskLosses": "torchsims.losses",
    "load": "torchsims.training",
    "Predictor": "torchsims.workloads",
    "TablePredictor": "torchsims.workloads",
}  # every other name lives in torchsims.steppers


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f"torchsims.{name}")
    value = getattr(import_module(_HOMES.get(name, "torchsims.steppers")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
