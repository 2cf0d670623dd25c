"""Where SIMS reaches the front of the toy problem and where it is trapped: not in the paper.

    torchsims reproduce phase --out runs/phase

A map over the temperature and the ratio of the two learning rates, one map per augmentation; ten runs per cell: both
scalings of Fig. 1 x five starts. The challenger starts 0.05 away in every coordinate.
"""

from dataclasses import asdict
from itertools import product

import torch

from torchsims.experiments.settings import PhaseSettings as Settings
from torchsims.problems import Toy
from torchsims.reporting import Progress, Report, heat_maps
from torchsims.synthetic import Saddle, run_rows
from torchsims.synthetic.checks import check_not_negative, check_positive
from torchsims.synthetic.methods import LR, PERTURB, SCALES, STOP_DISTANCE, offset
from torchsims.synthetic.tables import phase_rows

__all__ = ["Settings", "check", "run"]


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_positive(settings, "taus", "ratios", "steps")
    check_not_negative(settings, "augments")


def run(settings: Settings, progress: Progress) -> Report:
    """Run all cells at once."""
    shape = (len(settings.augments), len(settings.taus), len(settings.ratios))
    cells = torch.tensor(list(product(settings.augments, settings.taus, settings.ratios)), dtype=torch.float64)
    runs = list(product(SCALES, Toy().starts.tolist()))
    scale, starts = (torch.tensor(column, dtype=torch.float64) for column in zip(*runs, strict=True))
    augment, tau, ratio = cells.repeat_interleave(len(runs), 0).T
    outcome = run_rows(
        Toy(),
        Saddle(tau=tau, augment=augment, inner_lr=LR * ratio, offset=offset(settings.seed)),
        starts.repeat(len(cells), 1),
        scale=scale.repeat(len(cells), 1),
        steps=settings.steps,
        lr=LR,
        stop_distance=STOP_DISTANCE,
        record_every=settings.steps,
        compiled=settings.compiled,
        progress=progress(f"{len(cells)} cells x {len(runs)} runs", settings.steps + 1),
    )
    reached = outcome.reached.double().reshape(*shape, -1).sum(-1)
    titles = [rf"augment $\rho$ = {augment:g}" for augment in settings.augments]
    figure = heat_maps(
        dict(zip(titles, reached.numpy(), strict=True)),
        ("inner rate / outer rate", settings.ratios),
        (r"temperature $\tau$", settings.taus),
        f"runs of {len(runs)} that reach the front",
        limits=(0, len(runs)),
        form=".0f",
    )
    return Report(
        title="Where SIMS reaches the front of the toy problem",
        command="torchsims reproduce phase",
        settings=asdict(settings) | {"rate": LR, "stop": STOP_DISTANCE, "perturb": PERTURB},
        rows=phase_rows(cells, outcome),
        figures={"phase": figure},
        notes=[f"Runs of {len(runs)} that reach the front, by temperature, ratio of the rates and augmentation."],
    )
