"""Reports of one run and of runs side by side: tables of means, Delta_b, curves and pictures."""

from collections.abc import Mapping, Sequence
from math import isfinite, isnan, nan
from typing import Any

from matplotlib.figure import Figure

from torchsims.registry import Spec
from torchsims.reporting._bars import delta_bars, paired_change
from torchsims.reporting._curves import cosine_curves, share_curves, training_curves, validation_curves, weight_curves
from torchsims.reporting._pictures import predictions
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
from torchsims.reporting._scores import DELTA, Score, score_runs
from torchsims.reporting._tables import Row
from torchsims.reporting._verdict import find_verdict
from torchsims.training.run import Run

LAST = "after the last epoch, where the learning rate has fallen to zero"
NOTHING: Mapping[str, Any] = {}
CAPTIONS = {
    "rescaled": "The same with the losses as they are and with one of them multiplied.",
    "predictions": "An image of the test split: the labels, then what each method predicts.",
    "training": "Mean training loss per epoch, in the units of the data.",
    "validation": "Metrics of the validation split after each epoch.",
    "weights": "Mean share of each task in a step, per epoch: its loss times the derivative of the objective by it, "
    "over the sum of these products. One unit for all methods: the shares of a step sum to 1.",
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
        data=run.data,
        starved=_starved([run]),
        failures=_failures([run]),
        run=run,
    )


def comparison_report(
    title: str,
    command: str,
    runs: Sequence[Run],
    *,
    baseline: str | None,
    notes: Sequence[str] = (),
    figures: Mapping[str, Figure] = NOTHING,
    details: Mapping[str, Sequence[Row]] = NOTHING,
) -> Report:
    """Return the report of runs side by side; the metrics of a run that failed are NaN.

    Where there is no run with the label ``baseline``, or nothing can be relative to one of its metrics, mean ranks
    stand in for Delta_b. With ``None`` the runs are no rivals: there is no score and no verdict. Further ``figures``
    come first.

    Example:
        >>> from torchsims.training import RunConfig
        >>> numbers, up = {"EW": 0.5, "SIMS": 0.6}, {"seg": {"miou": True}}
        >>> runs = [Run(name, RunConfig(), {"seg": {"miou": x}}, up) for name, x in numbers.items()]
        >>> report = comparison_report("Methods", "torchsims compare", runs, baseline="EW")
        >>> [round(row["Delta_b"], 3) for row in report.rows]
        [0.0, 0.2]
    """
    runs = sorted(runs, key=lambda run: [other.label for other in runs].index(run.label))
    score = score_runs(runs, baseline)
    last = last_epoch_runs(runs)
    epoch = "at the selected epoch" if last else LAST
    over, dot = ("splits and seeds", "run") if has_splits(runs) else ("seeds", "seed")
    repeated = len({run.label for run in runs}) < len(runs)
    shown = f": means over {over} and sample standard deviations" if repeated else "; one run each"
    relative = score.name == DELTA and bool(score.values)
    explained = f" Delta_b is a fraction, relative to the mean of {baseline}." if relative else ""
    return Report(
        title=title,
        command=command,
        settings=_common_settings(runs),
        rows=summary_table(runs, {score.name: score.values}),
        last_rows=summary_table(last),
        details={
            "Runs": runs_table(runs),
            **({"Means after the last epoch": summary_table(last)} if last else {}),
            **({"Runs after the last epoch": runs_table(last)} if last else {}),
            **details,
        },
        figures={**figures, **_score_figures(runs, score), **_run_figures(runs)},
        captions=CAPTIONS
        | {
            "delta": f"Mean relative improvement over {baseline}; one dot per {dot}.",
            "ranks": f"Mean rank over tasks and metrics, 1 is the best; one dot per {dot}.",
        },
        columns=run_columns(runs, {score.name: score.higher_is_better}),
        notes=[
            *notes,
            f"Metrics of the test split {epoch}{shown}.{explained}",
            *mean_notes(runs),
            *score.notes,
        ],
        verdict=None if baseline is None else find_verdict(runs, score, baseline),
        data=next((run.data for run in runs if run.data), None),
        starved=_starved(runs),
        failures=_failures(runs),
    )


def _common_settings(runs: Sequence[Run]) -> dict[str, object]:
    """Return the settings of all runs, as lists where they differ."""
    configs = [run.config.to_dict() for run in runs]
    common: dict[str, object] = {}
    for name in configs[0] if configs else ():
        values = [config[name] for config in configs]
        distinct = [value for i, value in enumerate(values) if value not in values[:i]]
        common[name] = distinct[0] if len(distinct) == 1 else distinct
    return common


def _score_figures(runs: Sequence[Run], score: Score) -> dict[str, Figure]:
    values = score.values
    pairs = {run.rescaled: run.label for run in runs if run.rescaled in values and run.label in values}
    figures = {"delta" if score.name == DELTA else "ranks": delta_bars(values, score.name)} if values else {}
    if pairs:
        before = {label: values[label] for label in values if label in pairs}
        after = {label: values[pairs[label]] for label in before}
        figures["rescaled"] = paired_change(before, after, score.name)
    return figures


def _run_figures(runs: Sequence[Run]) -> dict[str, Figure]:
    """Return the figures that every page of runs has, by name."""
    pictures = [run for run in runs if run.samples and "image" in run.samples]
    validated = any(run.history.validation for run in runs)
    measured = [run for run in runs if run.history.cosines]
    trained = any(run.history.losses for run in runs)
    weighted = [run for run in runs if run.history.influence]  # older runs do not have it
    return {
        **({"predictions": predictions(pictures)} if pictures else {}),
        **({"training": training_curves(runs)} if trained else {}),
        **({"validation": validation_curves(runs)} if validated else {}),
        **({"weights": weight_curves(weighted)} if weighted else {}),
        **({"gradient_shares": share_curves(measured), "cosines": cosine_curves(measured)} if measured else {}),
    }


def _starved(runs: Sequence[Run]) -> list[Starved]:
    return [Starved(run.label, run.seed, tuple(run.starved), run.split) for run in runs if run.starved]


def _failures(runs: Sequence[Run]) -> list[Failure]:
    return [Failure(run.label, run.seed, run.failure, run.split) for run in runs if run.failure is not None]


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
