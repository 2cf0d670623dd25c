"""Methods side by side on one workload: the table of means, Delta_b, the curves and the pictures.

torchsims compare --data scenes --methods ew,gls,stch,foops,sims --seeds 3
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from matplotlib.figure import Figure

from torchsims._specs import join_spec, over, split_spec
from torchsims.experiments._deltas import deltas, rescaled_pairs
from torchsims.experiments._figures import run_figures
from torchsims.experiments._grid import Cell, Grid, run_grid
from torchsims.experiments._notes import mean_notes, starved_notes, zero_notes
from torchsims.experiments._trained import changed, read_run_with_settings
from torchsims.methods import Method
from torchsims.reporting import (
    History,
    Report,
    Row,
    Run,
    ShowRows,
    delta_bars,
    paired_change,
    run_columns,
    runs_table,
    table,
)
from torchsims.training import Settings, first_process

__all__ = [
    "Comparison",
    "compare",
    "deltas",
    "find_runs",
    "grid_of",
    "report_of",
    "rescaled_pairs",
    "tempered",
    "variant",
]


@dataclass(frozen=True)
class Comparison:
    """What to compare, and what to call it.

    Attributes:
        title: of the page.
        command: that does it again.
        runs: the settings of every run.
        baseline: the label that Delta_b is relative to.
        notes: sentences for the top of the page.
        figures: makes further figures from the runs.
    """

    title: str
    command: str
    runs: tuple[Settings, ...]
    baseline: str
    notes: tuple[str, ...] = ()
    figures: Callable[[Sequence[Run]], Mapping[str, Figure]] = lambda runs: {}


def variant(base: Settings, text: str) -> Settings:
    """Return settings with another method, or with another architecture trained by EW.

    ``stl`` is one network per task of the architecture that ``base`` has.

    Example:
        >>> variant(Settings(), "gls").label, variant(Settings(), "stl").label
        ('GLS', 'STL, EW')
    """
    (name, own), workload = split_spec(text), base.workload()
    if name == "stl" and "of" not in own:
        name, usual = split_spec(workload.single_task(base.model))
        return replace(base, method="ew", model=join_spec(name, {**usual, **own}))
    if name in ("stl", *workload.architectures):
        return replace(base, method="ew", model=text)
    return replace(base, method=text)


def tempered(base: Settings, methods: Sequence[str]) -> tuple[str, ...]:
    """Return methods with the temperature of SIMS for STCH in its normalised form: the paper gives them the same.

    Example:
        >>> tempered(Settings(), ["ew", "stch:normalize=yes"])
        ('ew', 'stch:normalize=yes:mu=3')
    """
    sims = Method(replace(base, method="sims").method)
    tau = sims.options.get("tau", sims.defaults["tau"])
    return tuple(over(method, [f"stch:mu={tau:g}"]) if "normalize=yes" in method else method for method in methods)


def grid_of(base: Settings, methods: Sequence[str], seeds: int) -> tuple[Settings, ...]:
    """Return all methods with the seeds 0, 1, ...; those of one seed after those of the one before."""
    if not seeds >= 1:
        raise ValueError(f"Parameter `seeds` should be positive. Found `seeds = {seeds}`.")
    variants = [variant(base, method) for method in methods]
    if not variants:
        raise ValueError("Parameter `methods` should not be empty.")
    labels = [each.label for each in variants]
    if len(set(labels)) < len(labels):
        raise ValueError(f"Parameter `methods` should hold distinct methods. Found {', '.join(methods)}.")
    return tuple(replace(each, seed=seed) for seed in range(seeds) for each in variants)


def compare(
    comparison: Comparison, out: Path, grid: Grid, show: ShowRows, say: Callable[[str], None] = lambda sentence: None
) -> Report | None:
    """Run everything and return the report, in the first process; finished runs are not run again.

    Args:
        comparison: what to run.
        out: the folder.
        grid: how to run it.
        show: called with the live table.
        say: called with a warning of a run.
    """
    cells = run_grid(comparison.runs, out, grid, show, say)
    if not first_process():
        return None
    failures = [f"{c.label}, seed {c.settings.seed}: {c.failure}" for c in cells if c.failure is not None]
    finished = [cell.run for cell in cells if cell.run is not None]
    if not finished:
        raise RuntimeError(f"No run was finished. {' '.join(failures)}")
    runs = [cell.run or _without_numbers(cell, finished[0]) for cell in cells]
    return report_of(comparison, runs, failures)


def _without_numbers(cell: Cell, like: Run) -> Run:
    """Return a run that failed: leaving it out of the means would flatter its method."""
    metrics = {task: dict.fromkeys(values, nan) for task, values in like.metrics.items()}
    history = History(epoch=[], losses={}, weights={}, merit=[], validation={})
    return Run(cell.label, cell.settings.seed, metrics, like.better, history)


def report_of(comparison: Comparison, runs: Sequence[Run], failures: Sequence[str] = ()) -> Report:
    """Return the report of runs."""
    relative = deltas(runs, comparison.baseline)
    figures, captions = run_figures(runs)
    first = {"delta": delta_bars(relative, r"$\Delta_b$")} if relative else {}
    captions["delta"] = f"Mean relative improvement over {comparison.baseline}; a dot a seed."
    pairs = rescaled_pairs(relative)
    if pairs:
        both = ({label: relative[label] for label in pairs}, {label: relative[pairs[label]] for label in pairs})
        first["rescaled"] = paired_change(*both, r"$\Delta_b$")
        captions["rescaled"] = "The same with the losses as they are and with one of them multiplied."
    runs = sorted(runs, key=lambda run: [run.label for run in runs].index(run.label))
    passes = {settings.label: Method(settings.method).passes for settings in comparison.runs}
    columns = run_columns(runs, {"Delta_b": True} if relative else {})
    preset = [changed(settings, but=("method",)) for settings in comparison.runs[:1]]  # of what all runs share
    return Report(
        title=comparison.title,
        command=comparison.command,
        settings=_common(comparison.runs),
        rows=[_with_passes(row, passes) for row in table(runs, {"Delta_b": relative} if relative else {})],
        details={"Runs": runs_table(runs), **{name: rows for _, tables in preset for name, rows in tables.items()}},
        figures={**comparison.figures(runs), **first, **figures},
        captions=captions,
        columns=columns,
        notes=[
            *comparison.notes,
            *(sentence for sentence, _ in preset),
            "Metrics of the test split after the last epoch: means over seeds and sample standard deviations."
            + (f" Delta_b is a fraction, relative to the mean of {comparison.baseline}." if relative else ""),
            *mean_notes(runs),
            *zero_notes(runs, comparison.baseline),
            *starved_notes(runs),
            *(f"Failed: {failure}" for failure in failures),
        ],
    )


def _with_passes(row: Row, passes: Mapping[str, str]) -> Row:
    """Return a row with the forward + backward passes of a step beside the name of the method, where they are known."""
    label = str(row["method"])
    return {"method": label, **({"passes": passes[label]} if label in passes else {}), **row}


def find_runs(folders: Sequence[Path]) -> tuple[list[Run], list[Settings]]:
    """Return the finished runs in folders that `torchsims train` or `torchsims compare` left, and their settings.

    Runs that differ in more than method, model, rescaling and seed do not belong into one table, and are refused.
    """
    found: list[tuple[Run, Settings]] = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"There is no folder `{folder}`.")
        inside = sorted((folder / "runs").iterdir()) if (folder / "runs").is_dir() else [folder]
        here = [pair for pair in map(read_run_with_settings, inside) if pair is not None]
        if not here:
            raise ValueError(f"There is no finished run in `{folder}`.")
        found += _in_order(folder, here)
    _check_alike([settings for _, settings in found])
    return [run for run, _ in found], [settings for _, settings in found]


FREE = ("method", "model", "rescale", "evaluation", "seed")
"""What runs in one table may differ in."""


def _check_alike(runs: Sequence[Settings]) -> None:
    first = runs[0].plain()
    seen: dict[tuple[str, int], Settings] = {}
    for settings in runs:
        for name, value in settings.plain().items():
            if name not in FREE and value != first[name]:
                raise ValueError(f"All runs of a page should have the same `{name}`. Found {first[name]} and {value}.")
        key = settings.label, settings.seed
        if key in seen:
            raise ValueError(f"Every run should be there once. Found two of {key[0]} with seed {key[1]}.")
        seen[key] = settings
    models = {settings.label: settings.model for settings in reversed(runs)}
    for settings in runs:
        if models[settings.label] != settings.model:
            raise ValueError(
                f"All runs called {settings.label} should have the same model. "
                f"Found {models[settings.label]} and {settings.model}."
            )


def _in_order(folder: Path, runs: list[tuple[Run, Settings]]) -> list[tuple[Run, Settings]]:
    """Return runs in the order in which their folder's own table has them."""
    labels: list[object] = []
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # without it, in the order of the folders
        labels = [row.get("method") for row in json.loads((folder / "results.json").read_text())["rows"]]

    def place(pair: tuple[Run, Settings]) -> tuple[int, int]:
        label = pair[0].label
        return labels.index(label) if label in labels else len(labels), pair[0].seed

    return sorted(runs, key=place)


def _common(runs: Sequence[Settings]) -> dict[str, object]:
    """Return the settings of all runs, as lists where they differ."""
    plain = [run.plain() for run in runs]
    common: dict[str, object] = {}
    for name in plain[0] if plain else ():
        values = [each[name] for each in plain]
        distinct = [value for i, value in enumerate(values) if value not in values[:i]]
        common[name] = distinct[0] if len(distinct) == 1 else distinct
    return common
