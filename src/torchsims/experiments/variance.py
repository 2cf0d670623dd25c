"""How much trajectories and end points vary when the losses are rescaled: the paper's figure and table.

    torchsims reproduce variance --out runs/variance

Toy problem from (0, 0) under seven rescalings; seeds perturb the challenger. Sample variance of the unscaled losses
over the rescalings, then the mean over the seeds. Methods with one copy have no challenger: all seeds are equal.
"""

from dataclasses import asdict

import torch

from torchsims.experiments.settings import VarianceSettings as Settings
from torchsims.reporting import Progress, Report
from torchsims.synthetic.checks import check_settings
from torchsims.synthetic.figures import plot_variance
from torchsims.synthetic.methods import FIXED, METHODS, offset, run_toy, toy
from torchsims.synthetic.tables import table_rows, variance_over_scales

SCALES = ((1.0, 1.0), (1.0, 1.25), (1.25, 1.0), (1.0, 10.0), (10.0, 1.0), (100.0, 1.0), (1.0, 100.0))
PAPER = {"ew": 57.322545, "foops": 57.318462, "stch": 55.757745, "gls": 0.020195, "sims": 0.020105}


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_settings(settings, {"methods": METHODS})
    toy(settings.variant)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all methods under all rescalings and seeds."""
    scale = torch.tensor(SCALES, dtype=torch.float64).repeat(settings.seeds, 1)
    offsets = torch.stack([offset(seed) for seed in range(settings.seeds)]).repeat_interleave(len(SCALES), 0)
    outcomes = run_toy(settings, torch.zeros_like(scale), scale, offsets, record_every=50, progress=progress)
    found = outcomes.values()
    variance = torch.stack([variance_over_scales(outcome.losses, len(SCALES)) for outcome in found])
    rows = table_rows(
        method=[METHODS[name].label for name in outcomes],
        var_1=variance[:, 0],
        var_2=variance[:, 1],
        var_mean=variance.mean(1),
        paper=[PAPER.get(name) for name in outcomes],
        reached=[int(outcome.reached.sum()) for outcome in found],
        of=[len(scale)] * len(outcomes),
        most_steps=[int(outcome.steps.max()) for outcome in found],
    )
    return Report(
        title="Variance over seven rescalings of the losses",
        command="torchsims reproduce variance",
        settings=asdict(settings) | {"scales": SCALES} | FIXED,
        rows=rows,
        figures={"variance": plot_variance(outcomes, len(SCALES))},
        notes=["Sample variance over the rescalings, averaged over seeds; the paper's average is beside it."],
    )
