"""How much trajectories and end points vary when the losses are rescaled: the paper's figure and table.

    torchsims reproduce variance --out runs/variance

Toy problem from (0, 0) under seven rescalings, three seeds that perturb the challenger; sample variance of the unscaled
losses over the rescalings, then the mean over the seeds. Methods with one copy have no challenger and no seed. The stop
is measured in unscaled losses, so that it does not depend on the scaling.
"""

from dataclasses import asdict, dataclass
from typing import Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor

from torchsims.experiments._checks import check_names, check_positive
from torchsims.experiments._runs import Outcome, run_rows
from torchsims.experiments._toy_methods import FOOPS_TAU, LABELS, METHODS, PERTURB, STCH_MU, offset
from torchsims.problems import Toy
from torchsims.reporting import Progress, Report

__all__ = ["Settings", "run"]

SCALES = ((1.0, 1.0), (1.0, 1.25), (1.25, 1.0), (1.0, 10.0), (10.0, 1.0), (100.0, 1.0), (1.0, 100.0))
RATE = 1e-3
STOP = 0.05
FLOOR = 1e-32  # zeros are drawn here on the logarithmic axis
PAPER = {"ew": 57.322545, "foops": 57.318462, "stch": 55.757745, "gls": 0.020195, "sims": 0.020105}
COLOURS = {
    "ew": "#0072b2",
    "gls": "#009e73",
    "stch": "#cc79a7",
    "foops": "#e69f00",
    "foops-perturbed": "#7f5539",
    "sims": "#d55e00",
    "mgda": "#56b4e9",
    "pcgrad": "#332288",
    "cagrad": "#117733",
    "nashmtl": "#882255",
    "fairgrad": "#999933",
    "gradnorm": "#000000",
    "dbmtl": "#aa4499",
}
DASHES = {"foops": "--", "foops-perturbed": ":", "fairgrad": "--"}  # FOOPS lies on EW, FairGrad on Nash-MTL


@dataclass(frozen=True)
class Settings:
    """What can be chosen; the temperature is that of SIMS."""

    methods: tuple[str, ...] = ("ew", "gls", "stch", "foops", "foops-perturbed", "sims")
    variant: Literal["paper", "cited"] = "paper"
    tau: float = 0.015
    seeds: int = 3
    steps: int = 35_000
    compiled: bool = True

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        check_positive("tau", self.tau)
        check_positive("seeds", self.seeds)
        check_positive("steps", self.steps)
        Toy(self.variant)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all methods under all rescalings and seeds."""
    problem = Toy(settings.variant)
    scale = torch.tensor(SCALES, dtype=torch.float64)
    offsets = torch.stack([offset(seed) for seed in range(settings.seeds)])
    outcomes = {
        name: run_rows(
            problem,
            METHODS[name](settings.tau, offsets.repeat_interleave(len(scale), 0)),
            torch.zeros(settings.seeds * len(scale), problem.dimension, dtype=torch.float64),
            scale=scale.repeat(settings.seeds, 1),
            steps=settings.steps,
            rate=RATE,
            stop=STOP,
            every=50,
            compiled=settings.compiled,
            progress=progress(LABELS[name], settings.steps + 1),
        )
        for name in settings.methods
    }
    rows = []
    for name, outcome in outcomes.items():
        first, second = _variance(outcome.losses, settings.seeds).tolist()
        rows.append(
            {
                "method": LABELS[name],
                "var_1": first,
                "var_2": second,
                "var_mean": (first + second) / 2,
                "paper": PAPER.get(name),
                "reached": int(outcome.reached.sum()),
                "of": len(outcome.reached),
                "most_steps": int(outcome.steps.max()),
            }
        )
    fixed = {"scales": SCALES, "rate": RATE, "stop": STOP, "perturb": PERTURB}
    return Report(
        title="Variance over seven rescalings of the losses",
        command="torchsims reproduce variance",
        settings=asdict(settings) | fixed | {"stch_mu": STCH_MU, "foops_tau": FOOPS_TAU},
        rows=rows,
        figures={"variance": _figure(outcomes, settings.seeds)},
        notes=["Sample variance over the rescalings, averaged over seeds; the paper's average is beside it."],
    )


def _variance(losses: Tensor, seeds: int) -> Tensor:
    """Return the variance over rescalings, averaged over seeds, `... x m`, of ``losses``, `... x runs x m`."""
    by_seed = losses.reshape(*losses.shape[:-2], seeds, len(SCALES), losses.shape[-1])
    return by_seed.var(-2).mean(-2)


def _figure(outcomes: dict[str, Outcome], seeds: int) -> Figure:
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, outcome in outcomes.items():
        curve = _variance(outcome.path, seeds).mean(-1)
        steps = outcome.every * torch.arange(len(curve))
        for axis, values in ((left, curve), (right, curve.clamp(min=FLOOR))):
            axis.plot(steps.numpy(), values.numpy(), DASHES.get(name, "-"), color=COLOURS[name], label=LABELS[name])
    right.set_yscale("log")
    left.set_title("linear")
    right.set_title("logarithmic")
    for axis in (left, right):
        axis.set_xlabel("step")
        axis.set_ylabel("variance over rescalings")
        axis.grid(alpha=0.2)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure
