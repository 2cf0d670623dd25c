"""Mean ranks: how methods compare where no number can be relative to a baseline."""

from collections.abc import Sequence
from math import isnan
from statistics import fmean

from torchsims.training.run import Run


def mean_ranks(runs: Sequence[Run]) -> dict[str, list[float]]:
    r"""Return the mean rank of every run among those of its split and seed, by label; 1 is the best.

    .. math::
        \frac1T \sum_{i=1}^T \frac1{K_i} \sum_{j=1}^{K_i} r_{ij}

    - :math:`r_{ij}`: the rank of metric j of task i among the runs of the same split and seed; equal numbers share
      their mean rank, and NaN comes last.

    Example:
        >>> from torchsims.training import RunConfig
        >>> numbers, up = {"EW": 0.0, "SIMS": 0.75, "GLS": 0.75}, {"seg": {"r2": True}}
        >>> mean_ranks([Run(name, RunConfig(), {"seg": {"r2": x}}, up) for name, x in numbers.items()])
        {'EW': [3.0], 'SIMS': [1.5], 'GLS': [1.5]}
    """
    found: dict[str, list[float]] = {}
    for run in runs:
        rivals = [other for other in runs if (other.split, other.seed) == (run.split, run.seed)]
        ranks = [
            fmean(
                _rank(run.metrics[task][name], [other.metrics[task][name] for other in rivals], up)
                for name, up in names.items()
            )
            for task, names in run.higher_is_better.items()
        ]
        found.setdefault(run.label, []).append(fmean(ranks))
    return found


def _rank(value: float, values: Sequence[float], higher_is_better: bool) -> float:
    def key(number: float) -> tuple[bool, float]:
        return (True, 0.0) if isnan(number) else (False, -number if higher_is_better else number)

    keys = [key(other) for other in values]
    return 1 + sum(other < key(value) for other in keys) + (keys.count(key(value)) - 1) / 2
