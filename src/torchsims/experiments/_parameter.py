"""A table and a figure of one parameter of SIMS."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from matplotlib.figure import Figure

from torchsims.experiments.compare import Comparison, grid_of
from torchsims.reporting import delta_b_by_label, metric_against
from torchsims.training import Settings
from torchsims.training.run import Run

__all__ = ["sweep"]


def sweep(
    base: Settings, seeds: int, command: str, *, title: str, option: str, values: Sequence[float], symbol: str
) -> Comparison:
    """Return what to run: EW, and SIMS with every value of an option.

    Args:
        base: the settings of the other things.
        seeds: how many.
        command: that does it again.
        title: of the page.
        option: of SIMS.
        values: of the option, increasing.
        symbol: what the axis of the figure is called.
    """
    methods = [f"sims:{option}={value:g}" for value in values]
    runs = grid_of(base, ["ew", *methods], seeds)
    labels = list(dict.fromkeys(run.label for run in runs))

    def figures(found: Sequence[Run]) -> Mapping[str, Figure]:
        curves = {"Delta_b": _curve(delta_b_by_label(found, labels[0]), labels[1:])}
        for task, metrics in found[0].metrics.items():
            name = next(iter(metrics))
            by_label = {label: [r.metrics[task][name] for r in found if r.label == label] for label in labels}
            curves[f"{task} {name}"] = _curve(by_label, labels[1:])
        return {option: metric_against(values, curves, symbol)}

    return Comparison(title, command, runs, labels[0], figures=figures)


def _curve(values: Mapping[str, Sequence[float]], labels: Sequence[str]) -> tuple[list[float], list[float | None]]:
    """Return mean and standard deviation of every label; NaN where there is no run."""
    found = [values.get(label) or [float("nan")] for label in labels]
    return [fmean(each) for each in found], [stdev(each) if len(each) > 1 else None for each in found]
