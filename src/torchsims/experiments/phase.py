"""Where SIMS reaches the front of the toy problem and where it is trapped: not in the paper.

    torchsims reproduce phase --out runs/phase

A map over the temperature and the ratio of the two learning rates, one map for each augmentation; ten runs a cell: both
scalings of Fig. 1 x five starts. The challenger starts 0.05 away in every coordinate.
"""

from dataclasses import asdict, dataclass
from itertools import product

import torch

from torchsims.experiments._checks import check_not_empty, check_not_negative, check_positive
from torchsims.experiments._runs import Saddle, run_rows
from torchsims.experiments._toy_methods import PERTURB, offset
from torchsims.problems import Toy
from torchsims.reporting import Progress, Report, heat_maps

__all__ = ["Settings", "run"]

SCALES = ((1.0, 0.1), (0.1, 1.0))
RATE = 1e-3
STOP = 0.05


@dataclass(frozen=True)
class Settings:
    """What can be chosen: the axes of the map."""

    taus: tuple[float, ...] = (0.003, 0.01, 0.015, 0.03, 0.05, 0.1, 0.3, 1.0, 3.0)
    ratios: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
    augments: tuple[float, ...] = (0.0, 0.01, 0.1)
    seed: int = 0
    steps: int = 35_000
    compiled: bool = True

    def __post_init__(self) -> None:
        for name in ("taus", "ratios", "augments"):
            check_not_empty(name, getattr(self, name))
        check_positive("taus", *self.taus)
        check_positive("ratios", *self.ratios)
        check_not_negative("augments", *self.augments)
        check_positive("steps", self.steps)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all cells at once."""
    problem = Toy()
    cells = list(product(settings.augments, settings.taus, settings.ratios))
    runs = list(product(SCALES, problem.starts.tolist()))
    augment, tau, ratio = torch.tensor(cells, dtype=torch.float64).repeat_interleave(len(runs), 0).T
    outcome = run_rows(
        problem,
        Saddle(tau=tau, augment=augment, inner_rate=RATE * ratio, offset=offset(settings.seed)),
        torch.tensor([start for _, start in runs] * len(cells), dtype=torch.float64),
        scale=torch.tensor([scale for scale, _ in runs] * len(cells), dtype=torch.float64),
        steps=settings.steps,
        rate=RATE,
        stop=STOP,
        every=settings.steps,
        compiled=settings.compiled,
        progress=progress(f"{len(cells)} cells x {len(runs)} runs", settings.steps + 1),
    )
    reached = outcome.reached.reshape(len(cells), -1)
    steps = outcome.steps.reshape(len(cells), -1)
    ends = outcome.losses.reshape(len(cells), len(SCALES), -1)
    rows = [
        {
            "augment": cell[0],
            "tau": cell[1],
            "ratio": cell[2],
            "reached": int(reached[i].sum()),
            "of": len(runs),
            "most_steps": int(steps[i][reached[i]].max()) if reached[i].any() else None,
            "gap_between_scalings": float((ends[i, 0] - ends[i, 1]).abs().max()),
        }
        for i, cell in enumerate(cells)
    ]
    counts = reached.sum(-1).double().reshape(len(settings.augments), len(settings.taus), -1).numpy()
    figure = heat_maps(
        {rf"augment $\rho$ = {augment:g}": count for augment, count in zip(settings.augments, counts, strict=True)},
        ("inner rate / outer rate", settings.ratios),
        (r"temperature $\tau$", settings.taus),
        f"runs of {len(runs)} that reach the front",
        limits=(0, len(runs)),
        form=".0f",
    )
    return Report(
        title="Where SIMS reaches the front of the toy problem",
        command="torchsims reproduce phase",
        settings=asdict(settings) | {"rate": RATE, "stop": STOP, "perturb": PERTURB},
        rows=rows,
        figures={"phase": figure},
        notes=[f"Runs of {len(runs)} that reach the front, by temperature, ratio of the rates and augmentation."],
    )
