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
from torchsims.synthetic.tables import table_rows

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
    reached = outcome.reached.reshape(len(cells), -1)
    most = outcome.steps.reshape(len(cells), -1).where(reached, -1).amax(1).tolist()
    rows = table_rows(
        augment=cells[:, 0],
        tau=cells[:, 1],
        ratio=cells[:, 2],
        reached=reached.sum(1),
        of=[len(runs)] * len(cells),
        most_steps=[steps if steps >= 0 else None for steps in most],
        gap_between_scalings=outcome.losses.reshape(len(cells), 2, -1).diff(dim=1).abs().amax((1, 2)),
    )
    titles = [rf"augment $\rho$ = {augment:g}" for augment in settings.augments]
    figure = heat_maps(
        dict(zip(titles, reached.sum(1).double().reshape(shape).numpy(), strict=True)),
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
        rows=rows,
        figures={"phase": figure},
        notes=[f"Runs of {len(runs)} that reach the front, by temperature, ratio of the rates and augmentation."],
    )
