"""What to compare: configurations that differ in their method, and the report of their runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from math import nan
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from torchsims.methods import Method
from torchsims.models import SINGLE_TASK, Architecture
from torchsims.registry import Spec, option_text
from torchsims.reporting import Report, Row, ShowStatus, comparison_report, metric_against, score_runs
from torchsims.sweeps._cells import RunCell
from torchsims.sweeps.folders import describe_preset
from torchsims.sweeps.running import run_all
from torchsims.training import Execution, Resolved, Run, RunConfig, label_of, with_method
from torchsims.training.world import first_process
from torchsims.workloads import workload_class

if TYPE_CHECKING:  # plots are only imported by those who draw them
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """What to compare, and how to show it: a title, the configurations of all runs, and the baseline of Delta_b.

    There is no ``baseline`` where runs are no rivals. ``notes`` are sentences for the top of the page, ``figures``
    makes further figures from the runs, and ``tables`` further tables from the rows of the report; ``finish`` makes the
    final report from the report and the runs. ``in_order`` says that a run needs those before it. ``labels`` are what
    the report calls the runs, one each, if their own labels are too long for it.

    Example:
        >>> Comparison("Methods", (RunConfig(),), RunConfig(method="ew")).notes
        ()
    """

    title: str
    configs: tuple[RunConfig, ...]
    baseline: RunConfig | None
    notes: tuple[str, ...] = ()
    figures: Callable[[Sequence[Run]], Mapping[str, "Figure"]] = field(default=lambda runs: {})
    tables: Callable[[Sequence[Row]], Mapping[str, Sequence[Row]]] = field(default=lambda rows: {})
    finish: Callable[[Report, Sequence[Run]], Report] = field(default=lambda report, runs: report)
    in_order: bool = False
    labels: tuple[str, ...] = ()


def with_variant(config: RunConfig, text: str) -> RunConfig:
    """Return the configuration with another method, or with another architecture trained by EW.

    ``stl`` is one network per task of the kind that the configuration has.

    Example:
        >>> from torchsims.training import complete_config
        >>> with_variant(complete_config({}), "stl").model
        'stl:of=hps'
    """
    spec, known = Spec.parse(text), workload_class(config.data).architectures
    if spec.name not in (SINGLE_TASK, *known):
        return with_method(config, text)
    if spec.name == SINGLE_TASK and "of" not in spec.options:
        spec = spec.with_defaults(str(Architecture.parse(config.model, known).as_single_task()))
    return replace(with_method(config, "ew"), model=str(spec))


def with_shared_temperature(config: RunConfig, methods: Sequence[str]) -> tuple[str, ...]:
    """Return methods with the temperature of SIMS for STCH in its normalised form: the paper gives them the same.

    Example:
        >>> from torchsims.training import complete_config
        >>> with_shared_temperature(complete_config({}), ["ew", "stch:normalize=yes"])
        ('ew', 'stch:normalize=yes:mu=3')
    """
    sims = Method(with_method(config, "sims").method)
    tau = option_text(sims.options.get("tau", sims.defaults["tau"]))
    specs = [Spec.parse(text) for text in methods]
    return tuple(
        str(spec.with_defaults(f"stch:mu={tau}")) if spec.options.get("normalize") == "yes" else str(spec)
        for spec in specs
    )


def method_grid(config: RunConfig, methods: Sequence[str], seeds: int, splits: int = 1) -> tuple[RunConfig, ...]:
    """Return configurations of all methods with the seeds 0, 1, ...; all methods of one seed before the next seed.

    With several splits the data are split anew, and all seeds of one split come before the next split.

    Example:
        >>> from torchsims.training import complete_config
        >>> [(config.method, config.seed) for config in method_grid(complete_config({}), ["ew", "gls"], seeds=2)]
        [('ew', 0), ('gls', 0), ('ew', 1), ('gls', 1)]
    """
    if not seeds >= 1:
        raise ValueError(f"Parameter `seeds` should be positive. Found `seeds = {seeds}`.")
    if not splits >= 1:
        raise ValueError(f"Parameter `splits` should be positive. Found `splits = {splits}`.")
    if splits > 1 and "split" not in signature(workload_class(config.data)).parameters:
        name = Spec.parse(config.data).name
        raise ValueError(f"Parameter `splits` should be 1: data `{name}` has splits of its own. Found {splits}.")
    if not methods:
        raise ValueError("Parameter `methods` should not be empty.")
    variants = [with_variant(config, text) for text in methods]
    if any(variant in variants[:i] for i, variant in enumerate(variants)):
        raise ValueError(f"Parameter `methods` should hold distinct methods. Found {', '.join(methods)}.")
    return tuple(
        replace(variant, seed=seed, split=config.split + split)
        for split in range(splits)
        for seed in range(seeds)
        for variant in variants
    )


def option_comparison(
    config: RunConfig, seeds: int, title: str, *, option: str, values: Sequence[float], symbol: str
) -> Comparison:
    """Return the comparison of EW, and of SIMS with every value of one option, with a figure over the values.

    The values increase; ``symbol`` is the label of the horizontal axis.

    Example:
        >>> from torchsims.training import complete_config
        >>> found = option_comparison(complete_config({}), 1, "tau", option="tau", values=(1.0, 3.0), symbol="tau")
        >>> [config.method for config in found.configs]
        ['ew', 'sims:tau=1', 'sims:tau=3']
    """
    methods = [f"sims:{option}={value:g}" for value in values]
    baseline = with_variant(config, "ew")
    labels = [label_of(with_variant(config, method)) for method in methods]

    def figures(runs: Sequence[Run]) -> Mapping[str, "Figure"]:
        score = score_runs(runs, label_of(baseline))
        curves = {score.name: _curve(score.values, labels)}
        for task, metrics in runs[0].metrics.items():
            name = next(iter(metrics))
            by_label = {label: [r.metrics[task][name] for r in runs if r.label == label] for label in labels}
            curves[f"{task} {name}"] = _curve(by_label, labels)
        return {option: metric_against(values, curves, symbol)}

    return Comparison(title, method_grid(config, ["ew", *methods], seeds), baseline, figures=figures)


def _curve(values: Mapping[str, Sequence[float]], labels: Sequence[str]) -> tuple[list[float], list[float | None]]:
    """Return mean and standard deviation of every label; NaN where there is no run."""
    found = [values.get(label) or [nan] for label in labels]
    return [fmean(each) for each in found], [stdev(each) if len(each) > 1 else None for each in found]


def run_comparison(
    comparison: Comparison,
    resolved: Sequence[Resolved],
    out: Path,
    execution: Execution,
    *,
    command: str,
    show: ShowStatus,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Report | None:
    """Run everything that is not finished, and return the report; None in all processes but the first.

    ``resolved`` are the configurations of the comparison, and ``command`` is the command line that repeats it. ``show``
    is called with the status of all runs, ``warn`` with their warnings.

    Example:
        >>> import tempfile
        >>> from torchsims.training import complete_config, resolve
        >>> quick = {"data": "scenes:images=8:resolution=32", "model": "hps:width=8", "epochs": 1, "batch": 4}
        >>> plan = Comparison("Methods", method_grid(complete_config(quick), ["ew"], seeds=1), RunConfig(method="ew"))
        >>> with tempfile.TemporaryDirectory() as out:
        ...     resolved, how = [resolve(config) for config in plan.configs], Execution(jobs=1)
        ...     report = run_comparison(plan, resolved, Path(out), how, command="", show=lambda runs: None)
        >>> [row["method"] for row in report.rows]
        ['EW']
    """
    cells = run_all(resolved, out, replace(execution, jobs=1) if comparison.in_order else execution, show, warn)
    if not first_process():
        return None
    finished = [cell.run for cell in cells if cell.run is not None]
    if not finished:
        failures = [f"{cell.status.name}: {cell.status.progress}" for cell in cells]
        raise RuntimeError(f"No run was finished. {' '.join(dict.fromkeys(failures))}")
    runs = [cell.run or _failed(cell, finished[0]) for cell in cells]
    if comparison.labels:
        runs = [replace(run, label=label) for run, label in zip(runs, comparison.labels, strict=True)]
    note, details = describe_preset(comparison.configs[0], without=("method", *_differing(comparison.configs)))
    report = comparison_report(
        comparison.title,
        command,
        runs,
        baseline=None if comparison.baseline is None else label_of(comparison.baseline),
        notes=[*comparison.notes, note],
        figures=comparison.figures(runs),
        details=details,
    )
    report = replace(report, details={**comparison.tables(report.rows), **report.details})
    return comparison.finish(report, runs)


def _differing(configs: Sequence[RunConfig]) -> list[str]:
    """Return the settings that not all runs share; of the models, the first one is that of the preset."""
    names = [entry.name for entry in fields(RunConfig) if entry.name != "model"]
    return [name for name in names if any(getattr(c, name) != getattr(configs[0], name) for c in configs)]


def _failed(cell: RunCell, like: Run) -> Run:
    """Return a run that failed: leaving it out of the means would flatter its method."""
    resolved = cell.resolved
    return Run(
        resolved.label,
        resolved.config,
        {task: dict.fromkeys(values, nan) for task, values in like.metrics.items()},
        like.higher_is_better,
        failure=cell.status.progress,
        passes=resolved.passes,
        rescaled=resolved.unscaled_label,
    )
