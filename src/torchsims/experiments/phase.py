"""Where SIMS reaches the front of the toy problem and where it is trapped: not in the paper.

    torchsims reproduce phase --out runs/phase

A map over the temperature and the ratio of the two learning rates, one map per augmentation; ten runs per cell: both
scalings of Fig. 1 x five starts. The challenger starts 0.05 away in every coordinate.
"""

from dataclasses import asdict

import torch

from torchsims.experiments.settings import PhaseSettings as Settings
from torchsims.problems import Toy
from torchsims.reporting import Progress, Report, heat_maps
from torchsims.synthetic import Saddle, run_rows
from torchsims.synthetic.checks import check_settings
from torchsims.synthetic.methods import LR, PERTURB, STOP_DISTANCE, offset, scaled_runs
from torchsims.synthetic.tables import phase_rows


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_settings(settings, zero=("augments", "seed"))


def run(settings: Settings, progress: Progress) -> Report:
    """Run all cells at once."""
    axes = (settings.augments, settings.taus, settings.ratios)
    cells = torch.cartesian_prod(*(torch.tensor(axis, dtype=torch.float64) for axis in axes))
    scale, starts = scaled_runs(Toy().starts.tolist())
    augment, tau, ratio = cells.repeat_interleave(len(starts), 0).T
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
        progress=progress(f"{len(cells)} cells x {len(starts)} runs", settings.steps + 1),
    )
    reached = outcome.reached.double().reshape(*map(len, axes), -1).sum(-1).numpy()
    figure = heat_maps(
        {f"augment = {augment:g}": panel for augment, panel in zip(settings.augments, reached, strict=True)},
        ("inner rate / outer rate", settings.ratios),
        (r"temperature $\tau$", settings.taus),
        f"runs of {len(starts)} that reach the front",
        limits=(0, len(starts)),
    )
    return Report(
        title="Where SIMS reaches the front of the toy problem",
        command="torchsims reproduce phase",
        settings=asdict(settings) | {"rate": LR, "stop": STOP_DISTANCE, "perturb": PERTURB},
        rows=phase_rows(cells, outcome),
        figures={"phase": figure},
        notes=[f"Runs of {len(starts)} that reach the front, by temperature, ratio of the rates and augmentation."],
    )
