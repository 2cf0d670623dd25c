"""The commands that train, and the page of what they found."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchsims.cli._inputs import EXAMPLES, claim, fail_on, items, scales

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.experiments.compare import Comparison
    from torchsims.training import Settings

__all__ = ["SHARED", "again", "compare", "report", "run_comparison", "run_settings", "train"]

Data = Annotated[
    str | None,
    typer.Option(help="The name of the data, with options: scenes:images=512:resolution=96.", show_default="scenes"),
]
Preset = Annotated[
    str | None,
    typer.Option(help="Settings that suit the data: default, small; real data: paper, ablation, authors."),
]
Model = Annotated[
    str | None, typer.Option(help="The architecture, with options: hps:width=32, stl, sam2:encoder=tiny:rank=16.")
]
Tasks = Annotated[str | None, typer.Option(help="Names, separated by commas; those of the data by default.")]
Root = Annotated[Path | None, typer.Option(help="The folder of the data, for data that has one.")]
Rescale = Annotated[list[str] | None, typer.Option(help="Multiply the loss of a task: depth=100. May be repeated.")]
Epochs = Annotated[int | None, typer.Option(help="Passes through the training data.")]
BatchSize = Annotated[int | None, typer.Option("--batch", help="Items of a step, over all processes.")]
MicroBatches = Annotated[int | None, typer.Option(help="Parts of a batch that are in memory one at a time.")]
Rate = Annotated[float | None, typer.Option("--lr", help="The learning rate of the model.")]
Warmup = Annotated[float | None, typer.Option(help="The share of the steps in which the rate rises.")]
Decay = Annotated[float | None, typer.Option("--weight-decay", help="Of Adam.")]
Clip = Annotated[float | None, typer.Option(help="The largest norm of a gradient; 0 for none.")]
Dtype = Annotated[str | None, typer.Option(help="float32 or float64.")]
Autocast = Annotated[str | None, typer.Option(help="Precision of forward passes in training: none, bf16 or fp16.")]
Out = Annotated[Path | None, typer.Option(help="A new or empty folder; one in runs/ by default.", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run in the same folder stopped.")]
Every = Annotated[int, typer.Option("--checkpoint-every", help="Save after so many steps too, not only epochs.")]
Workers = Annotated[int, typer.Option(help="Processes that load data, of each run.")]
Seeds = Annotated[int, typer.Option(help="How many seeds.")]
Jobs = Annotated[int, typer.Option(help="Runs at a time; 0 for one a core.")]


SHARED = (
    "data",
    "model",
    "tasks",
    "root",
    "rescale",
    "epochs",
    "batch",
    "micro_batches",
    "lr",
    "warmup",
    "weight_decay",
    "clip",
    "dtype",
    "autocast",
    "preset",
)
"""The options that all commands with several runs have in common."""


def run_settings(given: dict[str, Any], stored: "Settings | None" = None) -> "Settings":
    """Return the settings of a run: a preset, then what the command line says; or those of the run that goes on."""
    from torchsims.training import Settings

    chosen = {name: value for name, value in given.items() if value not in (None, [])}
    for name, turn in (("tasks", items), ("rescale", scales), ("root", str)):
        if name in chosen:
            chosen[name] = turn(chosen[name])
    with fail_on(ValueError):
        before = {} if stored is None else stored.plain()
        values = before | ({} if stored is None else {"tasks": stored.tasks}) | chosen
        settings = Settings.of(values.pop("preset", "default"), **values)
        for key, value in before.items():
            if (found := settings.plain()[key]) != value:
                raise ValueError(f"The run to go on with has `{key} = {value}`. Found `{key} = {found}`.")
        settings.workload().check_sources(settings.model)
        return settings


def train(
    context: typer.Context,
    data: Data = None,
    method: Annotated[
        str | None, typer.Option(help=f"The name of a method, with options: {EXAMPLES}", show_default="sims")
    ] = None,
    preset: Preset = None,
    model: Model = None,
    tasks: Tasks = None,
    root: Root = None,
    rescale: Rescale = None,
    epochs: Epochs = None,
    batch: BatchSize = None,
    micro_batches: MicroBatches = None,
    lr: Rate = None,
    warmup: Warmup = None,
    weight_decay: Decay = None,
    clip: Clip = None,
    dtype: Dtype = None,
    autocast: Autocast = None,
    seed: Annotated[int | None, typer.Option(help="Where the model starts, and the order of the data.")] = None,
    out: Out = None,
    resume: Resume = False,
    checkpoint_every: Every = 0,
    workers: Workers = 0,
    threads: Annotated[int, typer.Option(help="Threads of the processor; 0 for all.")] = 0,
    profile: Annotated[bool, typer.Option("--profile", help="Say where the time went.")] = False,
) -> None:
    """Train one method; write its checkpoint, its metrics and its page."""
    given = {name: context.params[name] for name in ("method", "seed", *SHARED)}
    import torch

    from torchsims.experiments._grid import folder_name
    from torchsims.training import read_settings

    with fail_on(ValueError):
        stored = read_settings(out) if resume and out is not None else None
    settings = run_settings(given, stored)
    out = out or Path("runs") / f"{settings.data.partition(':')[0]}_{folder_name(settings)}"
    with fail_on(ValueError):
        stored = read_settings(out) if resume else None
    settings = run_settings(given, stored)
    if threads:
        torch.set_num_threads(threads)
    _train(settings, out, resume=resume, checkpoint_every=checkpoint_every, workers=workers, profile=profile)


def _train(
    settings: "Settings", out: Path, *, resume: bool, checkpoint_every: int, workers: int, profile: bool
) -> None:
    from torchsims.experiments._trained import Bar, shares, train_run
    from torchsims.reporting import markdown, runs_table, show_progress
    from torchsims.training import StoppedError, first_process

    if first_process():
        claim(out, resume=resume)
    try:
        with show_progress() as progress:
            bar = Bar(progress, settings.label)
            run, seconds = train_run(
                settings, out, watches=[bar], checkpoint_every=checkpoint_every, workers=workers, draw=True
            )
    except StoppedError:
        _stopped(f"torchsims train --resume --out {out}")
    except (ValueError, RuntimeError, OSError) as error:
        raise typer.TyperException(f"{error} The state before it is saved in {out}.") from error
    if first_process():
        typer.echo(markdown(runs_table([run])))
        if profile:
            typer.echo(markdown(shares(seconds)))
        typer.echo(f"Page: {out / 'report.html'}")


def _stopped(command: str) -> None:
    typer.echo(f"torchsims: stopped, and the state is saved. To go on: {command}", err=True)
    raise typer.Exit(130)


def compare(
    context: typer.Context,
    methods: Annotated[str, typer.Option(help=f"Names, separated by commas, with options: {EXAMPLES}")] = (
        "ew,gls,stch,foops,sims"
    ),
    seeds: Seeds = 1,
    baseline: Annotated[str, typer.Option(help="The method that Delta_b is relative to.")] = "ew",
    data: Data = None,
    preset: Preset = None,
    model: Model = None,
    tasks: Tasks = None,
    root: Root = None,
    rescale: Rescale = None,
    epochs: Epochs = None,
    batch: BatchSize = None,
    micro_batches: MicroBatches = None,
    lr: Rate = None,
    warmup: Warmup = None,
    weight_decay: Decay = None,
    clip: Clip = None,
    dtype: Dtype = None,
    autocast: Autocast = None,
    out: Out = None,
    resume: Resume = False,
    checkpoint_every: Every = 0,
    workers: Workers = 0,
    jobs: Jobs = 0,
) -> None:
    """Train several methods and seeds, and write their table, figures and page."""
    given = {name: context.params[name] for name in SHARED}
    from torchsims.experiments.compare import Comparison, grid_of, variant

    base = run_settings(given)
    with fail_on(ValueError):
        names = items(methods)
        comparison = Comparison(
            title=f"Methods on {base.data.partition(':')[0]}",
            command=again(f"compare --methods {','.join(names)} --seeds {seeds}", given),
            runs=grid_of(base, names, seeds),
            baseline=variant(base, baseline).label,
        )
    out = out or Path("runs") / "compare"
    run_comparison(comparison, out, resume=resume, jobs=jobs, checkpoint_every=checkpoint_every, workers=workers)


def again(command: str, given: dict[str, Any]) -> str:
    """Return the command line that does it again."""
    parts = [f"torchsims {command}"]
    for name, value in given.items():
        texts = value if isinstance(value, list) else [value]
        parts += [f"--{name.replace('_', '-')} {text}" for text in texts if text is not None]
    return " ".join(parts)


def run_comparison(
    comparison: "Comparison", out: Path, *, resume: bool, jobs: int, checkpoint_every: int, workers: int
) -> None:
    """Run everything, write the folder, print the table."""
    from torchsims.experiments._grid import Grid, check_cells
    from torchsims.experiments.compare import compare as run
    from torchsims.reporting import live_table, markdown, write
    from torchsims.training import StoppedError, first_process

    if first_process():
        claim(out, resume=resume)
    with fail_on(ValueError):
        check_cells(comparison.runs, out)
    begin = time.perf_counter()
    try:
        with live_table() as show:
            report = run(comparison, out, Grid(jobs, checkpoint_every, workers), show)
    except (StoppedError, KeyboardInterrupt):
        _stopped(f"{comparison.command} --resume --out {out}")
    except RuntimeError as error:
        raise typer.TyperException(str(error)) from error
    if not first_process():
        return
    write(report, out, time.perf_counter() - begin, into=True)
    typer.echo(markdown(report.rows, report.columns))
    typer.echo(f"Page: {out / 'report.html'}")
    if failed := [note for note in report.notes if note.startswith("Failed")]:
        raise typer.TyperException(" ".join(failed))


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that train or compare left.", metavar="RUN...")],
    baseline: Annotated[str | None, typer.Option(help="The label that Delta_b is relative to; EW if there.")] = None,
    out: Out = None,
) -> None:
    """Write one page of finished runs."""
    from torchsims.experiments.compare import Comparison, find_runs, report_of
    from torchsims.reporting import markdown, write

    begin = time.perf_counter()
    with fail_on(ValueError):
        found = find_runs(runs)
        labels = list(dict.fromkeys(run.label for run in found))
        if baseline is not None and baseline not in labels:
            raise ValueError(f"Parameter `baseline` should be one of {'; '.join(labels)}. Found `{baseline}`.")
    out = out or Path("runs") / "report"
    claim(out)
    command = f"torchsims report {' '.join(map(str, runs))}"
    page = report_of(Comparison("Finished runs", command, (), baseline or "EW"), found)
    write(page, out, time.perf_counter() - begin)
    typer.echo(markdown(page.rows, page.columns))
    typer.echo(f"Page: {out / 'report.html'}")
