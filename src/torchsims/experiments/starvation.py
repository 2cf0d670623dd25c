"""Where SIMS starves a task, by temperature, augmentation and speed of the challenger: not in the paper.

    torchsims reproduce starvation --data table --csv FILE --targets a,b,c --seeds 2

A merit function looks at the task with the least room to improve, so that a small temperature or a fast challenger can
leave another one behind. One map shows the mean improvement over EW, the other one how far the worst task falls behind
its best cell.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import isfinite, isnan, nan
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from torchsims.experiments.compare import Comparison, grid_of, variant
from torchsims.reporting import delta_b_by_label, heat_maps
from torchsims.training import Settings
from torchsims.training.run import Run

__all__ = ["AUGMENTS", "RATIOS", "TAUS", "comparison", "shortfalls"]

TAUS = (0.1, 0.3, 1.0, 3.0)
AUGMENTS = (0.0, 0.01, 0.1)
RATIOS = (2.0, 5.0, 10.0)


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    cells = list(product(RATIOS, TAUS, AUGMENTS))
    methods = [f"sims:tau={tau:g}:augment={augment:g}:ratio={ratio:g}" for ratio, tau, augment in cells]
    labels = [variant(base, method).label for method in methods]
    baseline = variant(base, "ew").label

    def figures(found: Sequence[Run]) -> Mapping[str, Figure]:
        behind = shortfalls([run for run in found if run.label != baseline])
        values = {"delta_map": delta_b_by_label(found, baseline), "worst_task": behind}
        names = {"delta_map": "Delta_b", "worst_task": "worst task behind its best cell"}
        return {
            key: heat_maps(
                {f"challenger x {ratio:g}": panel for ratio, panel in zip(RATIOS, _cells(each, labels), strict=True)},
                (r"augment $\rho$", AUGMENTS),
                (r"temperature $\tau$", TAUS),
                names[key],
                low_is_good=key == "worst_task",
            )
            for key, each in values.items()
        }

    return Comparison(
        "Where SIMS starves a task", command, grid_of(base, ["ew", *methods], seeds), baseline, (), figures
    )


def shortfalls(runs: Sequence[Run]) -> dict[str, list[float]]:
    r"""Return how far the worst task of every run falls behind the best one over all labels, by label.

    .. math::
        \max_i \frac{|b_i - v_i|}{|b_i|}

    - :math:`v_i`: the first metric of task i, of a run;
    - :math:`b_i`: its best mean over the seeds of a label. A run without a number has none here.

    Args:
        runs: the runs.
    """
    labels = dict.fromkeys(run.label for run in runs)
    worst: dict[str, list[float]] = {label: [0.0] * sum(run.label == label for run in runs) for label in labels}
    for task, metrics in runs[0].metrics.items():
        name = next(iter(metrics))
        values = {label: [run.metrics[task][name] for run in runs if run.label == label] for label in labels}
        means = [mean for each in values.values() if isfinite(mean := fmean(each))]
        best = (max if runs[0].higher_is_better[task][name] else min)(means, default=nan)
        for label, each in values.items():
            lost = [abs(best - value) / abs(best) if best else nan for value in each]
            worst[label] = [a if isnan(a) or a > b else b for a, b in zip(worst[label], lost, strict=True)]
    return worst


def _cells(values: Mapping[str, Sequence[float]], labels: Sequence[str]) -> NDArray[np.float64]:
    """Return the means as `ratio x tau x augment`; NaN where there is no run."""
    means = [fmean(values[label]) if values.get(label) else nan for label in labels]
    return np.array(means).reshape(len(RATIOS), len(TAUS), len(AUGMENTS))
