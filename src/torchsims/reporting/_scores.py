"""One number per run that compares methods: Delta_b, or the mean rank where nothing can be relative to the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

from torchsims.metrics import delta_b
from torchsims.reporting._ranks import mean_ranks
from torchsims.reporting._runs import mean
from torchsims.training.run import Run

DELTA, RANK = "Delta_b", "mean rank"
NEAR_ZERO, SMALL_R2 = 0.01, 0.05  # numbers relative to a smaller share, or to a smaller R2, say little


@dataclass(frozen=True)
class Score:
    """A number for every run, by label, in the order of the runs; ``notes`` say why it is not Delta_b.

    Example:
        >>> Score("mean rank", False, {"EW": [2.0], "SIMS": [1.0]}).notes
        ()
    """

    name: str
    higher_is_better: bool
    values: Mapping[str, Sequence[float]]
    notes: Sequence[str] = ()


def score_runs(runs: Sequence[Run], baseline: str | None) -> Score:
    """Return Delta_b against ``baseline``, or mean ranks with the reason.

    Ranks stand in where the baseline has no run, or a metric that is zero or NaN, an R2 below 0.05, or another metric
    below 0.01 although higher is better: accuracy, mIoU and other shares. A single method without a baseline has no
    score, nor have runs that are no rivals, whose baseline is ``None``.

    Example:
        >>> from torchsims.training import RunConfig
        >>> numbers, up = {"EW": 0.01, "SIMS": 0.75}, {"price": {"r2": True}}
        >>> runs = [Run(name, RunConfig(), {"price": {"r2": x}}, up) for name, x in numbers.items()]
        >>> score_runs(runs, "EW").values
        {'EW': [2.0], 'SIMS': [1.0]}
    """
    if baseline is None:
        return Score(RANK, False, {})
    labels = dict.fromkeys(run.label for run in runs)
    notes = _unusable_notes(runs, baseline)
    if baseline in labels and not notes:
        return Score(DELTA, True, delta_b_by_label(runs, baseline))
    if len(labels) < 2:
        return Score(RANK, False, {})
    missing = [] if baseline in labels else [f"Ranks stand in for Delta_b: there is no run of {baseline}."]
    return Score(RANK, False, mean_ranks(runs), [*notes, *(missing if baseline else [])])


def delta_b_by_label(runs: Sequence[Run], baseline: str) -> dict[str, list[float]]:
    """Return Delta_b of every run against the mean of the baseline, by label; nothing without a run of the baseline.

    It is NaN for all runs where a metric of the baseline is zero or NaN. The mean is over the seeds of the same split.

    Example:
        >>> from torchsims.training import RunConfig
        >>> numbers, up = {"EW": 0.5, "SIMS": 0.75}, {"seg": {"miou": True}}
        >>> runs = [Run(name, RunConfig(), {"seg": {"miou": x}}, up) for name, x in numbers.items()]
        >>> delta_b_by_label(runs, "EW")
        {'EW': [0.0], 'SIMS': [0.5]}
    """
    found: dict[str, list[float]] = {}
    splits = {run.split for run in runs}
    by_split = {split: _baseline_means([run for run in runs if run.split == split], baseline) for split in splits}
    for run in runs:
        if means := by_split[run.split]:
            zero = any(value == 0 for values in means.values() for value in values.values())
            found.setdefault(run.label, []).append(nan if zero else delta_b(run.metrics, means, run.higher_is_better))
    return found


def _baseline_means(runs: Sequence[Run], baseline: str) -> dict[str, dict[str, float]]:
    """Return the mean of every metric of the baseline; nothing without a run of it."""
    group = [run for run in runs if run.label == baseline]
    return {
        task: {metric: mean([run.metrics[task][metric] for run in group]) for metric in metrics}
        for task, metrics in (group[0].metrics.items() if group else ())
    }


def _least(metric: str) -> float:
    return SMALL_R2 if metric == "r2" else NEAR_ZERO


def _unusable_notes(runs: Sequence[Run], baseline: str) -> list[str]:
    """Return a sentence for every metric of the baseline that nothing can be relative to."""
    better = next((run.higher_is_better for run in runs if run.label == baseline), {})
    found = {
        f"{task} {metric}": value
        for task, values in _baseline_means(runs, baseline).items()
        for metric, value in values.items()
        if value == 0 or not isfinite(value) or (better[task][metric] and value < _least(metric))
    }
    if found and not any(map(isfinite, found.values())):
        return [f"Ranks stand in for Delta_b: {baseline}, which it is relative to, has a run without numbers."]
    return [
        f"Ranks stand in for Delta_b: {name} of {baseline} is {value:.2g}, and Delta_b is relative to it."
        for name, value in found.items()
        if isfinite(value)
    ]
