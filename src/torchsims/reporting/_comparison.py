"""Reports of one run and of runs side by side: tables of means, Delta_b, curves and pictures."""

from collections.abc import Mapping, Sequence
from math import isfinite, isnan, nan
from typing import Any

from matplotlib.figure import Figure

from torchsims.metrics import delta_b
from torchsims.registry import Spec
from torchsims.reporting._bars import delta_bars, paired_change
from torchsims.reporting._curves import cosine_curves, share_curves, training_curves, validation_curves, weight_curves
from torchsims.reporting._pictures import predictions
from torchsims.reporting._ranks import mean_ranks
from torchsims.reporting._report import Failure, Report, Starved
from torchsims.reporting._runs import (
    has_splits,
    last_epoch_runs,
    mean,
    mean_notes,
    run_columns,
    runs_table,
    summary_table,
)
from torchsims.reporting._tables import Row
from torchsims.training.run import Run

NEAR_ZERO = 0.05  # an R2 so small that numbers relative to it say little
LAST = "after the last epoch, where the learning rate has fallen to zero"
NOTHING: Mapping[str, Any] = {}
CAPTIONS = {
    "rescaled": "The same with the losses as they are and with one of them multiplied.",
    "predictions": "An image of the test split: the labels, then what each method predicts.",
    "training": "Mean training loss per epoch, in the units of the data.",
    "validation": "Metrics of the validation split after each epoch.",
    "weights": "Mean weight of each task per epoch.",
    "gradient_shares": "Mean share of each task in the lengths of all gradients by the shared parameters, per epoch.",
    "cosines": "Mean cosine of the gradients of two tasks per epoch, of the six pairs with the lowest at most.",
}


def run_report(
    run: Run,
    command: str,
    *,
    draw: bool,
    settings: Mapping[str, object] = NOTHING,
    notes: Sequence[str] = (),
    details: Mapping[str, Sequence[Row]] = NOTHING,
) -> Report:
    """Return the report of one run; ``settings`` stand beside those of its config, such as the number of threads.

    Example:
        >>> from torchsims.training import RunConfig
        >>> run = Run("EW", RunConfig(method="ew"), {"seg": {"miou": 0.5}}, {"seg": {"miou": True}})
        >>> run_report(run, "torchsims train --method ew", draw=False).title
        'EW on scenes'
    """
    last = last_epoch_runs([run])
    epoch = f"at epoch {run.selected}, selected on the validation split" if last else LAST
    return Report(
        title=f"{run.label} on {Spec.parse(run.config.data).name}",
        command=command,
        settings={**run.config.to_dict(), **settings},
        rows=runs_table([run]),
        last_rows=runs_table(last),
        details={**({"After the last epoch": runs_table(last)} if last else {}), **details},
        columns=run_columns([run]),
        figures=_run_figures([run]) if draw else {},
        captions=CAPTIONS,
        notes=[f"Metrics of the test split {epoch}; nothing was selected on it.", *notes, *mean_notes([run])],
        starved=_starved([run]),
        failures=_failures([run]),
        run=run,
    )


def comparison_report(
    title: str,
    command: str,
    runs: Sequence[Run],
    *,
    baseline: str,
    notes: Sequence[str] = (),
    figures: Mapping[str, Figure] = NOTHING,
    details: Mapping[str, Sequence[Row]] = NOTHING,
) -> Report:
    """Return the report of runs side by side; the metrics of a run that failed are NaN.

    Without a run with the label ``baseline`` there is no Delta_b; where a metric of the baseline is zero, or an R2 is
    close to it, mean ranks stand in for Delta_b. Further ``figures`` come first.

    Example:
        >>> from torchsims.training import RunConfig
        >>> numbers, up = {"EW": 0.5, "SIMS": 0.6}, {"seg": {"miou": True}}
        >>> runs = [Run(name, RunConfig(), {"seg": {"miou": x}}, up) for name, x in numbers.items()]
        >>> report = comparison_report("Methods", "torchsims compare", runs, baseline="EW")
        >>> [round(row["Delta_b"], 3) for row in report.rows]
        [0.0, 0.2]
    """
    runs = sorted(runs, key=lambda run: [other.label for other in runs].index(run.label))
    unusable = _unusable_notes(runs, baseline)
    name, score = ("mean rank", mean_ranks(runs)) if unusable else ("Delta_b", delta_b_by_label(runs, baseline))
    last = last_epoch_runs(runs)
    epoch = "at the selected epoch" if last else LAST
    over = "splits and seeds" if has_splits(runs) else "seeds"
    explained = f" Delta_b is a fraction, relative to the mean of {baseline}." if score and not unusable else ""
    return Report(
        title=title,
        command=command,
        settings=_common_settings(runs),
        rows=summary_table(runs, {name: score}),
        last_rows=summary_table(last),
        details={
            "Runs": runs_table(runs),
            **({"Means after the last epoch": summary_table(last)} if last else {}),
            **({"Runs after the last epoch": runs_table(last)} if last else {}),
            **details,
        },
        figures={**figures, **_score_figures(runs, score, name), **_run_figures(runs)},
        captions=CAPTIONS
        | {
            "delta": f"Mean relative improvement over {baseline}; one dot per seed.",
            "ranks": "Mean rank over tasks and metrics, 1 is the best; one dot per seed.",
        },
        columns=run_columns(runs, {name: not unusable}),
        notes=[
            *notes,
            f"Metrics of the test split {epoch}: means over {over} and sample standard deviations.{explained}",
            *mean_notes(runs),
            *unusable,
        ],
        starved=_starved(runs),
        failures=_failures(runs),
    )


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
    for run in runs:
        if means := _baseline_means([other for other in runs if other.split == run.split], baseline):
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


def _common_settings(runs: Sequence[Run]) -> dict[str, object]:
    """Return the settings of all runs, as lists where they differ."""
    configs = [run.config.to_dict() for run in runs]
    common: dict[str, object] = {}
    for name in configs[0] if configs else ():
        values = [config[name] for config in configs]
        distinct = [value for i, value in enumerate(values) if value not in values[:i]]
        common[name] = distinct[0] if len(distinct) == 1 else distinct
    return common


def _score_figures(runs: Sequence[Run], score: Mapping[str, Sequence[float]], name: str) -> dict[str, Figure]:
    pairs = {run.rescaled: run.label for run in runs if run.rescaled in score and run.label in score}
    figures = {"delta" if name == "Delta_b" else "ranks": delta_bars(score, name)} if score else {}
    if pairs:
        before = {label: score[label] for label in score if label in pairs}
        after = {label: score[pairs[label]] for label in before}
        figures["rescaled"] = paired_change(before, after, name)
    return figures


def _run_figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """Return the figures that every page of runs has, by name."""
    pictures = [run for run in runs if run.samples and "image" in run.samples]
    validated = any(run.history.validation for run in runs)
    measured = [run for run in runs if run.history.cosines]
    return {
        **({"predictions": predictions(pictures)} if pictures else {}),
        "training": training_curves(runs),
        **({"validation": validation_curves(runs)} if validated else {}),
        "weights": weight_curves(runs),
        **({"gradient_shares": share_curves(measured), "cosines": cosine_curves(measured)} if measured else {}),
    }


def _starved(runs: Sequence[Run]) -> list[Starved]:
    return [Starved(run.label, run.seed, tuple(run.starved), run.split) for run in runs if run.starved]


def _failures(runs: Sequence[Run]) -> list[Failure]:
    return [Failure(run.label, run.seed, run.failure, run.split) for run in runs if run.failure is not None]


def _unusable_notes(runs: Sequence[Run], baseline: str) -> list[str]:
    """Return a sentence for every metric of the baseline that nothing can be relative to: zero, or a small R2."""
    return [
        f"Ranks stand in for Delta_b: {task} {metric} of {baseline} is {value:.2g}, and Delta_b is relative to it."
        for task, values in _baseline_means(runs, baseline).items()
        for metric, value in values.items()
        if value == 0 or (metric == "r2" and abs(value) < NEAR_ZERO)
    ]


def worst_shortfalls(runs: Sequence[Run]) -> dict[str, list[float]]:
    r"""Return how far the worst task of each run falls behind the best label, by label.

    .. math::
        \max_i \frac{|b_i - v_i|}{|b_i|}

    - :math:`v_i`: the first metric of task i of a run;
    - :math:`b_i`: its best mean over the seeds of a label. A run without a number has none here.

    Example:
        >>> from torchsims.training import RunConfig
        >>> numbers, up = {"a": (1.0, 0.5), "b": (0.8, 1.0)}, {task: {"r2": True} for task in "xy"}
        >>> metrics = {label: {"x": {"r2": x}, "y": {"r2": y}} for label, (x, y) in numbers.items()}
        >>> runs = [Run(label, RunConfig(), found, up) for label, found in metrics.items()]
        >>> {label: [round(value, 3) for value in values] for label, values in worst_shortfalls(runs).items()}
        {'a': [0.5], 'b': [0.2]}
    """
    labels = dict.fromkeys(run.label for run in runs)
    worst: dict[str, list[float]] = {label: [0.0] * sum(run.label == label for run in runs) for label in labels}
    for task, metrics in runs[0].metrics.items():
        name = next(iter(metrics))
        values = {label: [run.metrics[task][name] for run in runs if run.label == label] for label in labels}
        means = [found for each in values.values() if isfinite(found := mean(each))]
        best = (max if runs[0].higher_is_better[task][name] else min)(means, default=nan)
        for label, each in values.items():
            lost = [abs(best - value) / abs(best) if best else nan for value in each]
            worst[label] = [a if isnan(a) or a > b else b for a, b in zip(worst[label], lost, strict=True)]
    return worst
