"""Where SIMS starves a task, by temperature, augmentation and speed of the challenger: not in the paper.

    torchsims reproduce starvation --data table --csv FILE --targets a,b,c --seeds 2

A merit function looks at the task with the least room to improve, so that a small temperature or a fast challenger can
leave another one behind. One map shows the mean improvement over EW, or the mean rank where nothing can be relative to
EW, the other one how far the worst task falls behind its best cell.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import nan
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from torchsims.reporting import heat_maps, score_runs, worst_shortfalls
from torchsims.sweeps import Comparison, method_grid, with_variant
from torchsims.training import Run, RunConfig, label_of

TAUS = (0.1, 0.3, 1.0, 3.0)
AUGMENTS = (0.0, 0.01, 0.1)
RATIOS = (2.0, 5.0, 10.0)


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    cells = list(product(RATIOS, TAUS, AUGMENTS))
    methods = [f"sims:tau={tau:g}:augment={augment:g}:ratio={ratio:g}" for ratio, tau, augment in cells]
    labels = [label_of(with_variant(config, method)) for method in methods]
    baseline = with_variant(config, "ew")

    def figures(runs: Sequence[Run]) -> Mapping[str, Figure]:
        score = score_runs(runs, label_of(baseline))
        behind = worst_shortfalls([run for run in runs if run.label != label_of(baseline)])
        return {
            "delta_map": _maps(score.values, labels, score.name, low_is_good=not score.higher_is_better),
            "worst_task": _maps(behind, labels, "worst task behind its best cell", low_is_good=True),
        }

    configs = method_grid(config, ["ew", *methods], seeds)
    return Comparison("Where SIMS starves a task", configs, baseline, figures=figures)


def _maps(values: Mapping[str, Sequence[float]], labels: Sequence[str], name: str, low_is_good: bool = False) -> Figure:
    means: NDArray[np.float64] = np.array([fmean(values[label]) if values.get(label) else nan for label in labels])
    panels = means.reshape(len(RATIOS), len(TAUS), len(AUGMENTS))
    return heat_maps(
        {f"challenger x {ratio:g}": panel for ratio, panel in zip(RATIOS, panels, strict=True)},
        (r"augment $\rho$", AUGMENTS),
        (r"temperature $\tau$", TAUS),
        name,
        low_is_good=low_is_good,
    )
