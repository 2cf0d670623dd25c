"""The tables and figures of the paper, by name."""

import os
import shutil
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from torchsims.cli._inputs import floats, items, points
from torchsims.cli._tables import TABLES, table_command

__all__ = ["reproduce"]

reproduce = typer.Typer(help="A table or figure of the paper, by name; without a name, the list of them.")

Out = Annotated[Path | None, typer.Option(help="A new or empty folder; runs/NAME by default.", show_default=False)]
Methods = Annotated[str, typer.Option(help="Names, separated by commas.")]
Starts = Annotated[str | None, typer.Option(help='Points such as "0,0; 9,9"; those of the paper by default.')]
Numbers = Annotated[str, typer.Option(help="Numbers, separated by commas.")]
Compiled = Annotated[bool, typer.Option("--compile/--no-compile", help="Compile the steps; slow to start, then fast.")]

FIVE_METHODS = "ew,gls,stch,foops,sims"


@reproduce.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        for command in reproduce.registered_commands:
            assert command.callback is not None
            text = command.help or command.callback.__doc__ or ""
            typer.echo(f"{command.name or command.callback.__name__:16}{text.strip()}")


@reproduce.command()
def trajectories(
    out: Out = None,
    methods: Methods = FIVE_METHODS,
    starts: Starts = None,
    variant: Annotated[str, typer.Option(help="The sign of tanh in f2: paper or cited.")] = "paper",
    tau: Annotated[float, typer.Option(help="Temperature of SIMS.")] = 0.015,
    seed: Annotated[int, typer.Option(help="Seed of the perturbation of the challenger.")] = 0,
    steps: Annotated[int, typer.Option(help="The most steps of a run.")] = 35_000,
    compiled: Compiled = True,
) -> None:
    """Fig. 1: five methods on the toy problem, two scalings, five starts."""
    options = {"variant": variant, "tau": tau, "seed": seed, "steps": steps, "compiled": compiled}
    if starts is not None:
        options["starts"] = points(starts)
    _reproduce("trajectories", out, methods=items(methods), **options)


@reproduce.command()
def variance(
    out: Out = None,
    methods: Methods = "ew,gls,stch,foops,foops-perturbed,sims",
    variant: Annotated[str, typer.Option(help="The sign of tanh in f2: paper or cited.")] = "paper",
    tau: Annotated[float, typer.Option(help="Temperature of SIMS.")] = 0.015,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 3,
    steps: Annotated[int, typer.Option(help="The most steps of a run.")] = 35_000,
    compiled: Compiled = True,
) -> None:
    """Variance of the trajectories and of the end points over seven rescalings."""
    _reproduce(
        "variance",
        out,
        methods=items(methods),
        variant=variant,
        tau=tau,
        seeds=seeds,
        steps=steps,
        compiled=compiled,
    )


@reproduce.command()
def prox(
    out: Out = None,
    problems: Annotated[str, typer.Option(help="Names, separated by commas.")] = "f1,f2,f11",
    starts: Starts = None,
    values: Annotated[str, typer.Option(help="Values of lambda, separated by commas.")] = "0,1e-4,1e-3,1e-2,1e-1",
    tau: Annotated[float, typer.Option(help="Temperature of SIMS.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Steps of every run.")] = 20_000,
    compiled: Compiled = True,
) -> None:
    """The two tables on lambda: steps to a small gradient, and distance to the front."""
    options: dict[str, Any] = {} if starts is None else {"starts": points(starts)}
    _reproduce(
        "prox",
        out,
        problems=items(problems),
        values=floats("values", values),
        tau=tau,
        steps=steps,
        compiled=compiled,
        **options,
    )


@reproduce.command()
def rules(
    out: Out = None,
    problems: Annotated[str, typer.Option(help="Names, separated by commas.")] = "f1,f2,f11",
    starts: Starts = None,
    tau: Annotated[float, typer.Option(help="Temperature of SIMS.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Steps of every run.")] = 20_000,
    compiled: Compiled = True,
) -> None:
    """Rules that choose lambda at every step, beside fixed values; not in the paper."""
    options: dict[str, Any] = {} if starts is None else {"starts": points(starts)}
    _reproduce("rules", out, problems=items(problems), tau=tau, steps=steps, compiled=compiled, **options)


@reproduce.command()
def phase(
    out: Out = None,
    taus: Numbers = "0.003,0.01,0.015,0.03,0.05,0.1,0.3,1,3",
    ratios: Numbers = "1,1.5,2,3,5,10",
    augments: Numbers = "0,0.01,0.1",
    seed: Annotated[int, typer.Option(help="Seed of the perturbation of the challenger.")] = 0,
    steps: Annotated[int, typer.Option(help="The most steps of a run.")] = 35_000,
    compiled: Compiled = True,
) -> None:
    """Where SIMS reaches the front of the toy problem, by temperature and rates; not in the paper."""
    _reproduce(
        "phase",
        out,
        taus=floats("taus", taus),
        ratios=floats("ratios", ratios),
        augments=floats("augments", augments),
        seed=seed,
        steps=steps,
        compiled=compiled,
    )


for _name, _text in TABLES.items():
    reproduce.command(_name, help=_text)(table_command(_name))


def _reproduce(name: str, out: Path | None, **options: Any) -> None:
    """Check the input, do the work, write the folder."""
    from torchsims.reporting import check_out, markdown, show_progress, write

    out = Path("runs") / name if out is None else out
    if options["compiled"] and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
        typer.echo("No C++ compiler found: the steps are not compiled and take about ten times longer.", err=True)
        options["compiled"] = False
    experiment = import_module(f"torchsims.experiments.{name}")
    try:
        settings = experiment.Settings(**options)
        experiment.check(settings)
        check_out(out)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    begin = time.perf_counter()
    with show_progress() as progress:
        report = experiment.run(settings, progress)
    write(report, out, time.perf_counter() - begin)
    typer.echo(markdown(report.rows))
    typer.echo(f"Written to {out}.")
