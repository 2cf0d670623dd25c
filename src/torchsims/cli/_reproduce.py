"""The tables and figures of the paper, by name; each experiment declares its options."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from torchsims.cli._inputs import bad_input, warn
from torchsims.cli._options import add_options
from torchsims.cli._train import Out, Resume, base_config, run_comparison_command, start_workers
from torchsims.experiments import EXPERIMENTS, Experiment, load_experiment
from torchsims.training.config import ComparisonConfig, Execution, RunConfig

reproduce = typer.Typer(help="A table or figure of the paper, by name; without a name, the list of them.")


@reproduce.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        for name, experiment in EXPERIMENTS.items():
            typer.echo(f"{name:16}{experiment.help}")


def _synthetic(name: str, experiment: Experiment) -> Callable[..., None]:
    assert experiment.settings is not None
    make_settings = experiment.settings

    def command(out: Out = None, *, given: dict[str, Any]) -> None:
        from torchsims.reporting import check_output_dir, markdown, show_progress, write_report

        out = out or Path("runs") / name
        compiles = given.get("compiled", any(entry.name == "compiled" for entry in fields(make_settings)))
        if compiles and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
            warn("no C++ compiler found: the steps are not compiled and take about ten times longer.")
            given["compiled"] = False
        module = load_experiment(name)
        with bad_input():
            settings = make_settings(**given)
            module.check(settings)
            check_output_dir(out)
        begin = time.perf_counter()
        with show_progress() as progress:
            report = module.run(settings, progress)
        with bad_input():
            write_report(report, out, time.perf_counter() - begin)
        typer.echo(markdown(report.rows))
        typer.echo(f"Written to {out}.")

    return add_options(command, make_settings)


def _table(name: str, experiment: Experiment) -> Callable[..., None]:
    sources = [experiment.options] if experiment.options else []
    own = [entry.name for source in sources for entry in fields(source)]

    def command(out: Out = None, resume: Resume = False, *, given: dict[str, Any]) -> None:
        start_workers(given)
        seeds = given.get("seeds", ComparisonConfig.seeds)
        with bad_input():
            base = base_config(given, data=experiment.data)
            comparison = load_experiment(name).comparison(
                base, seeds, **{key: given[key] for key in own if key in given}
            )
        words = ["torchsims", "reproduce", name]
        run_comparison_command(comparison, out or Path("runs") / name, given, words, resume=resume)

    hidden = [name for name in ("methods", "baseline", "splits", "method", "seed") if name not in own]
    return add_options(command, ComparisonConfig, RunConfig, Execution, *sources, without=hidden)


for _name, _experiment in EXPERIMENTS.items():
    _make = _table if _experiment.settings is None else _synthetic
    reproduce.command(_name, help=_experiment.help)(_make(_name, _experiment))
