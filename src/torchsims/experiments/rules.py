r"""Rules that choose the proximal weight at every step: the question the paper leaves open. Not in the paper.

    torchsims reproduce rules --out runs/rules

The runs of `reproduce prox`, with fixed values of lambda and with rules. The saddle *repels* the model from the
challenger, lambda (theta - theta'), and attracts the challenger to the model. "Attract" reverses the repulsion, which
is no longer the saddle of h; "turn" repels until r_k < 0.1 and attracts from then on. "Fading" multiplies by 0.999
every step. r_k is the norm of the gradients that are followed, the forces of the rule included.
"""

from dataclasses import asdict
from functools import partial

import torch

from torchsims.experiments.settings import RulesSettings as Settings
from torchsims.reporting import Progress, Report
from torchsims.synthetic import Saddle
from torchsims.synthetic.checks import check_settings
from torchsims.synthetic.figures import plot_rules
from torchsims.synthetic.proximal import CONSTANT, FIXED, INNER_LR, PROBLEMS, RULES, Rules, run_saddle
from torchsims.synthetic.tables import table_rows


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_settings(settings, {"problems": PROBLEMS})


def run(settings: Settings, progress: Progress) -> Report:
    """Run all problems, starts and rules."""
    run_one = partial(run_saddle, columns=len(RULES), steps=settings.steps, compiled=settings.compiled)
    cases = []
    for name in settings.problems:
        saddle = Saddle(tau=settings.tau, inner_lr=INNER_LR, rule=Rules(len(settings.starts)))
        cases.append(run_one(name, saddle, settings.starts, progress=progress))
    first_step = torch.cat([case.first_step for case in cases]).mean(0)
    rank = torch.cat([case.rank(among=len(CONSTANT)) for case in cases]).mean(0)
    ratio = torch.cat([case.distance / (case.distance[:, :1] + case.tolerance) for case in cases])  # to lambda = 0
    rows = table_rows(
        rule=list(RULES),
        mean_first_step=first_step,
        median_distance_then=torch.cat([case.distance_then for case in cases]).nanmedian(0).values,
        mean_rank=rank,
        as_close_as_0=(ratio <= 1).sum(0),
        of=[len(ratio)] * len(RULES),
        worst_ratio_to_0=ratio.amax(0),
    )
    return Report(
        title="Rules for the proximal weight",
        command="torchsims reproduce rules",
        settings=asdict(settings) | FIXED,
        rows=rows,
        figures={"rules": plot_rules(list(RULES), (first_step, rank), grey=len(CONSTANT))},
        notes=[
            "Means over problems and starts: the first step with r_k below 0.1, the distance to the front then, the "
            "rank of the final distance among the five fixed values (1 is at least as near as all of them).",
            "In how many cases it ends as close as lambda = 0, and the largest ratio of the two final distances.",
        ],
    )
