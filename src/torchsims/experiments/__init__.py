"""The tables and figures of the paper, one flat file each, and their list; nothing here imports torch."""

from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from types import ModuleType

from torchsims.experiments import settings
from torchsims.training.config import RunConfig

__all__ = ["EXPERIMENTS", "Experiment", "load_experiment"]


@dataclass(frozen=True)
class Experiment:
    """A table or figure, and one line on what it shows."""

    help: str
    settings: type | None = None  # its options; None for a table of trained runs, which has the options of a run
    options: type | None = None  # options that a table has beside those; `comparison` takes them by name
    data: str = RunConfig.data  # data set that the runs of a table train on by default


EXPERIMENTS = {
    "trajectories": Experiment(
        "Fig. 1: five methods on the toy problem, two scalings, five starts.", settings.TrajectoriesSettings
    ),
    "variance": Experiment(
        "Variance of the trajectories and of the end points over seven rescalings.", settings.VarianceSettings
    ),
    "prox": Experiment(
        "The two tables on lambda: steps to a small gradient, and distance to the front.", settings.ProxSettings
    ),
    "rules": Experiment(
        "Rules that choose lambda at each step, beside fixed values; not in the paper.", settings.RulesSettings
    ),
    "phase": Experiment(
        "Where SIMS reaches the front of the toy problem, by temperature and rates; not in the paper.",
        settings.PhaseSettings,
    ),
    "fronts": Experiment(
        "Where preferences end on seven problems, for seven methods that take one; not in the paper.",
        settings.FrontsSettings,
    ),
    "methods": Experiment("The main table: every method on one data set."),
    "architectures": Experiment(
        "The upper half of the main table: every architecture with one method.", options=settings.ArchitecturesOptions
    ),
    "transforms": Experiment("SIMS with six transformations of the losses."),
    "normalization": Experiment("The merit function, EW and STCH on losses divided by an estimate of their size."),
    "tau": Experiment("The temperature of SIMS, as a table and a figure."),
    "lambda": Experiment("The proximal weight of SIMS, as a table and a figure."),
    "rescale": Experiment("Methods with the losses as they are, and with depth times 100."),
    "starvation": Experiment("Where SIMS starves a task, by temperature, augmentation and rates; not in the paper."),
    "aliccp": Experiment(
        "Click logs: every method, the AUC of clicks and purchases; synthetic logs without --root.", data="aliccp"
    ),
}
"""Experiments by name."""


def load_experiment(name: str) -> ModuleType:
    """Return the module of an experiment: ``run(settings, progress)`` or ``comparison(config, seeds, **options)``."""
    return import_module(f"{__name__}.{name}" + "_" * iskeyword(name))
