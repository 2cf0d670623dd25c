"""What the page of several runs says above its table."""

from collections.abc import Sequence

from torchsims.experiments._deltas import mean_metrics
from torchsims.reporting import Run, task_means, trained_tasks

__all__ = ["mean_notes", "starved_notes", "zero_notes"]

NEAR_ZERO = 0.05  # of an R2 that others are divided by


def mean_notes(runs: Sequence[Run]) -> list[str]:
    """Return a sentence on which tasks a mean is over, where that is not all of them."""
    trained = [(trained_tasks(run), run) for run in runs if task_means(run)]
    some = [", ".join(tasks) for tasks, run in trained if len(tasks) < len(run.metrics)]
    return [f"Means over tasks are those of the trained ones: {text}." for text in some[:1]]


def starved_notes(runs: Sequence[Run]) -> list[str]:
    """Return a sentence for every label that starved a task, and one on what helps.

    Example:
        >>> from torchsims.reporting import History
        >>> history = History(epoch=[], losses={}, weights={}, merit=[], validation={})
        >>> runs = [Run("SIMS", seed, {}, {}, history, starved=("cvr",)) for seed in (0, 2)]
        >>> starved_notes(runs)
        ['Starved: SIMS gave almost no weight to cvr (seed 0); cvr (seed 2). Option `augment=0.1` ...']
    """
    found: dict[str, list[str]] = {}
    for run in runs:
        if run.starved:
            found.setdefault(run.label, []).append(f"{', '.join(run.starved)} (seed {run.seed})")
    return [
        f"Starved: {label} gave almost no weight to {'; '.join(where)}. "
        f"Option `augment=0.1` of the method, or a larger `tau`, helps."
        for label, where in found.items()
    ]


def zero_notes(runs: Sequence[Run], baseline: str) -> list[str]:
    """Return a sentence for every metric of the baseline that nothing, or nothing of interest, can be relative to."""
    mean = mean_metrics([run for run in runs if run.label == baseline])
    return [
        f"There is no Delta_b: {task} {metric} of {baseline} is zero."
        for task, values in mean.items()
        for metric, value in values.items()
        if value == 0
    ] + [
        f"Delta_b says little: {task} r2 of {baseline} is {values['r2']:.2g}, and everything is relative to it."
        for task, values in mean.items()
        if 0 < abs(values.get("r2", 1.0)) < NEAR_ZERO
    ]
