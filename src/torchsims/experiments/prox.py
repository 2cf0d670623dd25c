r"""The paper's two tables on lambda: a larger one settles sooner, lambda = 0 ends nearest to the front.

    torchsims reproduce prox --out runs/prox

r_k is the norm of both gradients of h together. The rank orders the values of lambda by the distance of the final
losses to the front; distances that differ by less than 1e-10 of the front share the better rank. The median distance at
the step that counts is beside it: a large lambda gets a small gradient by driving the model away from the front.
"""

from dataclasses import asdict
from functools import partial

import torch

from torchsims.experiments.settings import ProxSettings as Settings
from torchsims.reporting import Progress, Report
from torchsims.synthetic import Saddle
from torchsims.synthetic.checks import check_settings
from torchsims.synthetic.figures import plot_prox
from torchsims.synthetic.proximal import FIXED, INNER_LR, PROBLEMS, prox_details, run_saddle
from torchsims.synthetic.tables import table_rows

PAPER_STEPS = {0.0: 2463, 1e-4: 2526, 1e-3: 1385, 1e-2: 711, 1e-1: 198}
PAPER_RANK = {0.0: 1.750, 1e-4: 2.333, 1e-3: 2.917, 1e-2: 2.917, 1e-1: 2.833}


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_settings(settings, {"problems": PROBLEMS}, zero=["values"])


def run(settings: Settings, progress: Progress) -> Report:
    """Run all problems, starts and values of lambda."""
    values = settings.values
    prox = torch.tensor(values, dtype=torch.float64).repeat(len(settings.starts))
    saddle = Saddle(tau=settings.tau, prox=prox, inner_lr=INNER_LR)
    run_one = partial(run_saddle, columns=len(values), steps=settings.steps, compiled=settings.compiled)
    cases = {name: run_one(name, saddle, settings.starts, progress=progress) for name in settings.problems}
    first_step = torch.cat([case.first_step for case in cases.values()]).mean(0)
    rank = torch.cat([case.rank() for case in cases.values()]).mean(0)
    rows = table_rows(
        prox=values,
        mean_first_step=first_step,
        mean_rank=rank,
        median_distance_then=torch.cat([case.distance_then for case in cases.values()]).nanmedian(0).values,
        paper_first_step=[PAPER_STEPS.get(value) for value in values],
        paper_rank=[PAPER_RANK.get(value) for value in values],
    )
    return Report(
        title="The proximal weight: how soon it settles, how near it ends",
        command="torchsims reproduce prox",
        settings=asdict(settings) | FIXED,
        rows=rows,
        details={name.upper(): prox_details(name, settings.starts, values, case) for name, case in cases.items()},
        figures={"prox": plot_prox(values, (first_step, rank), (PAPER_STEPS, PAPER_RANK))},
        notes=[
            "Means over problems and starts: first step with r_k below 0.1, rank of the final distance to the front. "
            "The distance then is the median of the runs that get there; a dash where none does.",
            "The paper does not state its rates; its values stand beside ours for the trend, not for the digits.",
        ],
    )
