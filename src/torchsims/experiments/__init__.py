"""The tables and figures of the paper, one flat file each, and their list; nothing here imports torch."""

from dataclasses import dataclass

from torchsims.experiments.settings import (
    PhaseSettings,
    ProxSettings,
    RulesSettings,
    TrajectoriesSettings,
    VarianceSettings,
)
from torchsims.training.config import RunConfig

__all__ = ["EXPERIMENTS", "Experiment"]


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Attributes:
        help: one line on what it shows.
        module: where ``run(settings, progress)``, or ``comparison(config, seeds)``, is.
        settings: dataclass of its options; None for a table of trained runs, which has the options of a run.
        data: data set that the runs of a table train on by default.
    """

    help: str
    module: str
    settings: type | None = None
    data: str = RunConfig.data


_HERE = "torchsims.experiments"

EXPERIMENTS = {
    "trajectories": Experiment(
        "Fig. 1: five methods on the toy problem, two scalings, five starts.",
        f"{_HERE}.trajectories",
        TrajectoriesSettings,
    ),
    "variance": Experiment(
        "Variance of the trajectories and of the end points over seven rescalings.",
        f"{_HERE}.variance",
        VarianceSettings,
    ),
    "prox": Experiment(
        "The two tables on lambda: steps to a small gradient, and distance to the front.", f"{_HERE}.prox", ProxSettings
    ),
    "rules": Experiment(
        "Rules that choose lambda at each step, beside fixed values; not in the paper.", f"{_HERE}.rules", RulesSettings
    ),
    "phase": Experiment(
        "Where SIMS reaches the front of the toy problem, by temperature and rates; not in the paper.",
        f"{_HERE}.phase",
        PhaseSettings,
    ),
    "methods": Experiment("The main table: every method on one data set.", f"{_HERE}.methods"),
    "transforms": Experiment("SIMS with six transformations of the losses.", f"{_HERE}.transforms"),
    "normalization": Experiment(
        "The merit function, EW and STCH on losses divided by an estimate of their size.", f"{_HERE}.normalization"
    ),
    "tau": Experiment("The temperature of SIMS, as a table and a figure.", f"{_HERE}.tau"),
    "lambda": Experiment("The proximal weight of SIMS, as a table and a figure.", f"{_HERE}.lambda_"),
    "rescale": Experiment("Methods with the losses as they are, and with depth times 100.", f"{_HERE}.rescale"),
    "starvation": Experiment(
        "Where SIMS starves a task, by temperature, augmentation and rates; not in the paper.", f"{_HERE}.starvation"
    ),
    "aliccp": Experiment(
        "Click logs: every method, the AUC of clicks and purchases; synthetic logs without --root.",
        f"{_HERE}.aliccp",
        data="aliccp",
    ),
}
"""Experiments by name."""
