"""Multi-task training in PyTorch that does not depend on the units of the losses."""

from torchsims import merit, normalizers, scalarizations, transforms
from torchsims.losses import TaskLosses
from torchsims.steppers import FOOPS, SIMS, MeritReport, ObjectiveReport, Report, Scalarized, Stepper

__version__ = "0.1.0"

__all__ = [
    "FOOPS",
    "SIMS",
    "MeritReport",
    "ObjectiveReport",
    "Report",
    "Scalarized",
    "Stepper",
    "TaskLosses",
    "merit",
    "normalizers",
    "scalarizations",
    "transforms",
]
