"""Commands that train: one run, or a comparison of several."""

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from torchsims._workers import worker_context
from torchsims.cli._inputs import bad_input, prepare_output_dir, warn
from torchsims.cli._options import add_options, class_names, given_values
from torchsims.training.config import ComparisonConfig, Execution, RunConfig, command_line, read_config, write_config

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.reporting import Report
    from torchsims.sweeps import Comparison
    from torchsims.training import Resolved

Out = Annotated[Path | None, typer.Option(help="New or empty folder; one in runs/ by default.", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Resume what is in the folder.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML or JSON file of settings; options go first.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how the columns of a table were read, and stop.")]
SaveConfig = Annotated[Path | None, typer.Option(help="Write all settings to a TOML or JSON file, and stop.")]


def base_config(given: dict[str, Any], config: Path | None = None, **defaults: Any) -> RunConfig:
    """Return the configuration of a command line: a preset, then the config file, then the options."""
    from torchsims.training import complete_config

    values = defaults | (read_config(config) if config else {}) | given_values(given, RunConfig)
    if "data" not in values and (root := values.get("root")):
        if Path(root).is_dir():
            raise ValueError(f"Option --data should say which data set a folder holds. Found none for `{root}`.")
        if not (Path(root).exists() or values.get("tasks")):  # with targets it is a file, and its reader says so
            raise ValueError(f"There is no file or folder `{root}`.")
        values["data"] = "table"  # or what its reader says of the name of the file
    return complete_config(values)


def start_workers(given: dict[str, Any], runs: int = 2) -> None:
    """Start what the processes of a command are made from, if it needs several for so many runs.

    It imports what they need while this process imports the same.
    """
    execution = Execution(**given_values(given, Execution))
    at_once = execution.jobs or (os.cpu_count() or 1) // execution.cores
    if execution.on == "local" and min(at_once, runs) > 1 and "RANK" not in os.environ:
        worker_context()


def _check_used(config: RunConfig) -> None:
    """Raise if it is said how to select an epoch, and none is selected."""
    if config.select_by != RunConfig.select_by and config.select == "last" and not config.patience:
        raise ValueError(
            "Option --select-by needs --select best: without it the last epoch is reported. Found "
            f"`select_by = {config.select_by}` and `select = last`."
        )


def _train(
    config: ConfigFile = None,
    save_config: SaveConfig = None,
    out: Out = None,
    resume: Resume = False,
    profile: Annotated[bool, typer.Option("--profile", help="Say where the time went.")] = False,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> None:
    """Train one method; write its checkpoint, its metrics and its page."""
    import torch

    from torchsims.sweeps import folder_name
    from torchsims.training import complete_config, resolve
    from torchsims.training.predict import read_run_config
    from torchsims.training.resolution import check_registered
    from torchsims.training.start import read_start
    from torchsims.training.world import processes

    execution = Execution(**given_values(given, Execution))
    with bad_input():
        stored = read_run_config(out) if resume and out else None
        if stored is None:
            resolved = resolve(base_config(given, config))
            _check_used(resolved.config)
        else:
            check_registered(stored, class_names(given))
            resolved = resolve(complete_config(stored.to_dict() | given_values(given, RunConfig)))
            _check_same(stored, resolved.config)  # names have one spelling only now
        if save_config is not None:
            write_config(resolved.config, save_config)
            return
        resolved.check_batches(processes())
        read_start(resolved.config)
    if describe_data(resolved, dry_run):
        return
    name = resolved.config.data.partition(":")[0]
    out = out or Path("runs") / f"{name}_{folder_name(resolved.config)}"
    if execution.threads:
        torch.set_num_threads(execution.threads)
    _run(resolved, out, execution, resume=resume, profile=profile)


def describe_data(resolved: "Resolved", dry_run: bool) -> bool:
    """Print how the data were read; return whether that is all."""
    from torchsims.reporting import markdown
    from torchsims.training.world import first_process

    rows = resolved.workload.describe_data()
    if first_process() and (rows or dry_run):
        typer.echo(markdown(rows) if rows else "Nothing is inferred from these data.")
        typer.echo("")
    return dry_run


def _check_same(stored: RunConfig, chosen: RunConfig) -> None:
    found = chosen.to_dict()
    for name, value in stored.to_dict().items():
        if found[name] != value:
            raise ValueError(f"The run to resume has `{name} = {value}`. Found `{name} = {found[name]}`.")


def _run(resolved: "Resolved", out: Path, execution: Execution, *, resume: bool, profile: bool) -> None:
    from torchsims.reporting import ProgressBar, last_epoch_runs, markdown, runs_table, show_progress
    from torchsims.sweeps import train_and_report
    from torchsims.training import StoppedError
    from torchsims.training.checkpoints import CHECKPOINT
    from torchsims.training.loop import CONFIG
    from torchsims.training.world import first_process

    if first_process():
        prepare_output_dir(out, resume=resume, mark=CONFIG)
    try:
        with show_progress() as progress:
            bar = ProgressBar(progress, resolved.label, warn)
            run = train_and_report(resolved, out, callbacks=[bar], execution=execution, draw=True)
    except StoppedError:
        stopped(f"torchsims train --resume --out {join([str(out)])}")
    except (ValueError, RuntimeError, OSError) as error:
        saved = f" What was trained before is saved in {out}." if (out / CHECKPOINT).exists() else ""
        raise typer.TyperException(f"{error}{saved}") from error
    if first_process():
        typer.echo(markdown(runs_table([run])))
        if last := last_epoch_runs([run]):
            typer.echo(f"\nAfter the last epoch:\n{markdown(runs_table(last))}")
        if profile:
            total = sum(run.seconds.values())
            rows = [{"part": part, "seconds": s, "share": s / total} for part, s in run.seconds.items()]
            typer.echo(markdown(rows))
        typer.echo(f"Page: {out / 'report.html'}")


def stopped(command: str) -> NoReturn:
    """Say how to resume, and exit as an interrupted command does."""
    from torchsims.training.world import first_process

    if first_process():
        warn(f"stopped, and the state is saved. To resume: {command}")
    raise typer.Exit(130)


def _compare(
    config: ConfigFile = None,
    out: Out = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> None:
    """Train several methods and seeds, and write their table, figures and page."""
    chosen = ComparisonConfig(**given_values(given, ComparisonConfig))
    if not dry_run:
        start_workers(given, max(chosen.tune, len(chosen.methods) * chosen.seeds * chosen.splits))
    from torchsims.registry import Spec
    from torchsims.sweeps import Comparison, method_grid, with_variant

    with bad_input():
        base = base_config(given, config)
        if not chosen.tune:
            _check_used(base)
        configs = method_grid(base, chosen.methods, chosen.seeds, chosen.splits)
        baseline = with_variant(base, chosen.baseline)
        if "baseline" in given and replace(baseline, seed=0) not in configs:
            raise ValueError(
                f"Parameter `baseline` should be one of {', '.join(chosen.methods)}. "
                f"Found `baseline = {chosen.baseline}`."
            )
    comparison = Comparison(f"Methods on {Spec.parse(base.data).name}", configs, baseline)
    words = ["torchsims", "compare", *(["--config", str(config)] if config else [])]
    out = out or Path("runs") / "compare"
    if chosen.tune and not dry_run:
        from torchsims.cli._tune import tune_first

        comparison = tune_first(comparison, chosen, out, given, words, resume=resume)
        resume = True  # the folder is this command's by now
    run_comparison_command(comparison, out, given, words, resume=resume, dry_run=dry_run)


def run_comparison_command(
    comparison: "Comparison",
    out: Path,
    given: dict[str, Any],
    words: list[str],
    *,
    resume: bool,
    dry_run: bool = False,
    finish: Callable[["Report"], None] = lambda report: None,
) -> None:
    """Run a comparison, write its folder, print its table; ``words`` are the command without its options.

    ``finish`` is called once with the report, before it is written.
    """
    from torchsims.reporting import live_table, write_report
    from torchsims.sweeps import check_cells, make_executor, run_comparison
    from torchsims.sweeps.folders import RESULTS
    from torchsims.sweeps.running import make_cells
    from torchsims.training import StoppedError, resolve
    from torchsims.training.checkpoints import CHECKPOINT
    from torchsims.training.world import first_process, processes

    execution = Execution(**given_values(given, Execution))
    command = join(command_line(words, {k: v for k, v in given.items() if k not in Execution.__dataclass_fields__}))
    with bad_input():
        resolved = [resolve(config) for config in comparison.configs]
        for each in resolved:
            each.check_batches(processes())
        check_cells(resolved, out)
        executor = make_executor(execution.on)
        if dry_run:
            typer.echo(executor.describe(make_cells(resolved, out), out, execution))
        else:
            executor.check()
    if describe_data(resolved[0], dry_run and execution.on == "local") or dry_run:
        return
    if first_process():
        prepare_output_dir(out, resume=resume, mark="runs", other=CHECKPOINT)
        (out / "runs").mkdir(exist_ok=True)  # what a kill leaves is a folder of this command
    begin = time.perf_counter()
    try:
        with live_table() if first_process() else nullcontext(lambda runs: None) as show:
            report = run_comparison(comparison, resolved, out, execution, command=command, show=show, warn=warn)
        if report is None:  # another process writes it
            return
        finish(report)
        write_report(report, out, time.perf_counter() - begin, into=True)
    except (StoppedError, KeyboardInterrupt):
        stopped(join([*command_line(words, given), "--resume", "--out", str(out)]))
    except (RuntimeError, OSError) as error:
        saved = f" Finished runs are in {out}." if any(out.glob(f"runs/*/{RESULTS}")) else ""
        raise typer.TyperException(f"{error}{saved}") from error
    print_report(report, out)
    if report.failures:
        raise typer.TyperException(" ".join(map(str, report.failures)))


def print_report(report: "Report", out: Path) -> None:
    """Print the table of a report, where its page is, and which tasks were starved."""
    from torchsims.reporting import markdown

    typer.echo(markdown(report.rows, report.columns))
    if report.last_rows:
        typer.echo(f"\nAfter the last epoch:\n{markdown(report.last_rows, report.columns)}")
    if report.verdict is not None:
        typer.echo("\n" + " ".join(filter(None, report.verdict.sentences)))
    typer.echo(f"Page: {out / 'report.html'}")
    for starved in report.starved:
        warn(f"{starved} Option `augment=0.1` of the method, or a larger `tau`, helps.")


train = add_options(_train, RunConfig, Execution, without=("jobs", "on", "processes"))
compare = add_options(_compare, ComparisonConfig, RunConfig, Execution, without=("method", "seed"))
