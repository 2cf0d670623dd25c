"""The commands that train, and the page of what they found."""

import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from torchsims.cli._inputs import EXAMPLES, bad_input, claim, items, names, scales, warn, warn_starved

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.experiments._grid import Grid
    from torchsims.experiments.compare import Comparison
    from torchsims.training import Settings

__all__ = ["SHARED", "again", "compare", "run_comparison", "run_settings", "train"]

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
Tasks = Annotated[
    str | None,
    typer.Option(
        "--tasks", "--targets", help="Names, separated by commas; those of the data by default. Of a table, columns."
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root", "--csv", help="The folder of the data, for data that has one. Of a table, the file: CSV or Parquet."
    ),
]
Types = Annotated[
    str | None,
    typer.Option(
        help="Of the targets of a table: auto, number or class, one for all or one each, separated by commas."
    ),
]
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
Evaluation = Annotated[str | None, typer.Option(help="Of SIMS and FOOPS: joint is faster, sequential is smaller.")]
Out = Annotated[Path | None, typer.Option(help="A new or empty folder; one in runs/ by default.", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where a run in the same folder stopped.")]
Every = Annotated[int, typer.Option("--checkpoint-every", min=0, help="Save after so many steps too, not only epochs.")]
Workers = Annotated[int, typer.Option(min=0, help="Processes that load data, of each run.")]
Seeds = Annotated[int, typer.Option(help="How many seeds.")]
Jobs = Annotated[int, typer.Option(min=0, help="Runs at a time; 0 for as many as there are cores.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of each run; the number decides how sums are rounded.")]


TABLES = (".csv", ".csv.gz", ".parquet", ".pq")
"""How the files end that no `--data` needs to be named for."""

SHARED = (
    "data",
    "model",
    "tasks",
    "root",
    "types",
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
    "evaluation",
    "preset",
)
"""The options that all commands with several runs have in common."""


def run_settings(given: dict[str, Any], stored: "Settings | None" = None) -> "Settings":
    """Return the settings of a run: a preset, then what the command line says; or those of the run that goes on."""
    from torchsims.training import Settings

    chosen = {name: value for name, value in given.items() if value not in (None, [])}
    for name, turn in (("tasks", names), ("types", names), ("rescale", scales), ("root", str)):
        if name in chosen:
            chosen[name] = turn(chosen[name])
    if stored is None and "data" not in chosen and str(chosen.get("root", "")).endswith(TABLES):
        chosen["data"] = "table"
    with bad_input():
        before = {} if stored is None else stored.plain()
        values = before | ({} if stored is None else {"tasks": stored.tasks, "types": stored.types}) | chosen
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
    types: Types = None,
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
    evaluation: Evaluation = None,
    seed: Annotated[int | None, typer.Option(help="Where the model starts, and the order of the data.")] = None,
    out: Out = None,
    resume: Resume = False,
    checkpoint_every: Every = 0,
    workers: Workers = 0,
    threads: Annotated[int, typer.Option(min=0, help="Threads of a new run; 0 for all cores.")] = 0,
    profile: Annotated[bool, typer.Option("--profile", help="Say where the time went.")] = False,
) -> None:
    """Train one method; write its checkpoint, its metrics and its page."""
    given = {name: context.params[name] for name in ("method", "seed", *SHARED)}
    import torch

    from torchsims.experiments._grid import folder_name
    from torchsims.training import read_settings

    if out is None:
        fresh = run_settings(given)
        out = Path("runs") / f"{fresh.data.partition(':')[0]}_{folder_name(fresh)}"
    with bad_input():
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
    from torchsims.training import CHECKPOINT, StoppedError, first_process, processes

    with bad_input():
        settings.check_batches(processes())
    if first_process():
        claim(out, resume=resume, mark=CHECKPOINT)
    try:
        with show_progress() as progress:
            bar = Bar(progress, settings.label, warn)
            run, seconds = train_run(
                settings, out, watches=[bar], checkpoint_every=checkpoint_every, workers=workers, draw=True
            )
    except StoppedError:
        _stopped(f"torchsims train --resume --out {shlex.quote(str(out))}")
    except (ValueError, RuntimeError, OSError) as error:
        saved = f" What was trained before is saved in {out}." if (out / CHECKPOINT).exists() else ""
        raise typer.TyperException(f"{error}{saved}") from error
    if first_process():
        typer.echo(markdown(runs_table([run])))
        if profile:
            typer.echo(markdown(shares(seconds)))
        typer.echo(f"Page: {out / 'report.html'}")


def _stopped(command: str) -> NoReturn:
    from torchsims.training import first_process

    if first_process():
        typer.echo(f"torchsims: stopped, and the state is saved. To go on: {command}", err=True)
    raise typer.Exit(130)


def compare(
    context: typer.Context,
    methods: Annotated[str, typer.Option(help=f"Names, separated by commas, with options: {EXAMPLES}")] = (
        "ew,gls,stch,foops,sims"
    ),
    seeds: Seeds = 1,
    baseline: Annotated[
        str | None, typer.Option(help="The one of the methods that Delta_b is relative to.", show_default="ew")
    ] = None,
    data: Data = None,
    preset: Preset = None,
    model: Model = None,
    tasks: Tasks = None,
    root: Root = None,
    types: Types = None,
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
    evaluation: Evaluation = None,
    out: Out = None,
    resume: Resume = False,
    checkpoint_every: Every = 0,
    workers: Workers = 0,
    jobs: Jobs = 0,
    threads: Threads = 1,
) -> None:
    """Train several methods and seeds, and write their table, figures and page."""
    given = {name: context.params[name] for name in SHARED}
    from torchsims.experiments._grid import Grid
    from torchsims.experiments.compare import Comparison, grid_of, variant

    base = run_settings(given)
    with bad_input():
        chosen = items(methods)
        runs = grid_of(base, chosen, seeds)
        relative_to = variant(base, baseline or "ew").label
        if baseline is not None and relative_to not in [run.label for run in runs]:
            raise ValueError(
                f"Parameter `baseline` should be one of {', '.join(chosen)}. Found `baseline = {baseline}`."
            )
        comparison = Comparison(
            title=f"Methods on {base.data.partition(':')[0]}",
            command=again(
                f"compare --methods {shlex.quote(','.join(chosen))} --seeds {seeds}",
                given | {"baseline": baseline},
            ),
            runs=runs,
            baseline=relative_to,
        )
    out = out or Path("runs") / "compare"
    run_comparison(comparison, out, Grid(jobs, checkpoint_every, workers, threads), resume=resume)


def again(command: str, given: dict[str, Any]) -> str:
    """Return the command line that does it again."""
    parts = [f"torchsims {command}"]
    for name, value in given.items():
        texts = value if isinstance(value, list | tuple) else [value]
        parts += [f"--{name.replace('_', '-')} {shlex.quote(str(text))}" for text in texts if text is not None]
    return " ".join(parts)


def run_comparison(comparison: "Comparison", out: Path, grid: "Grid", *, resume: bool) -> None:
    """Run everything, write the folder, print the table."""
    from torchsims.experiments._grid import check_cells
    from torchsims.experiments.compare import compare as run
    from torchsims.reporting import live_table, markdown, write
    from torchsims.training import CHECKPOINT, StoppedError, first_process, processes

    with bad_input():
        for settings in comparison.runs:
            settings.check_batches(processes())
        check_cells(comparison.runs, out)
    if first_process():
        claim(out, resume=resume, mark="runs", other=CHECKPOINT)
    begin = time.perf_counter()
    try:
        with live_table() if first_process() else nullcontext(lambda rows: None) as show:
            report = run(comparison, out, grid, show, warn)
        if report is None:  # another process writes it
            return
        write(report, out, time.perf_counter() - begin, into=True)
    except (StoppedError, KeyboardInterrupt):
        _stopped(f"{comparison.command} --resume --out {shlex.quote(str(out))}")
    except (RuntimeError, OSError) as error:
        raise typer.TyperException(f"{error} Finished runs are in {out}.") from error
    typer.echo(markdown(report.rows, report.columns))
    typer.echo(f"Page: {out / 'report.html'}")
    warn_starved(report)
    if failed := [note for note in report.notes if note.startswith("Failed")]:
        raise typer.TyperException(" ".join(failed))
