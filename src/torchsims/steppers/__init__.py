"""Steppers: one training step of one model, for each family of methods."""

from torchsims.steppers._base import Stepper
from torchsims.steppers._optimizers import OptimizerFactory
from torchsims.steppers._regularizer import Regularizer
from torchsims.steppers._reports import MeritReport, ObjectiveReport, Report
from torchsims.steppers.aggregated import Aggregated
from torchsims.steppers.foops import FOOPS
from torchsims.steppers.scalarized import Scalarized
from torchsims.steppers.sims import SIMS

__all__ = [
    "FOOPS",
    "SIMS",
    "Aggregated",
    "MeritReport",
    "ObjectiveReport",
    "OptimizerFactory",
    "Regularizer",
    "Report",
    "Scalarized",
    "Stepper",
]
