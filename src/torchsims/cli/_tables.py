"""The tables of the paper that train: one command each, with the same options."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from torchsims.cli._inputs import bad_input
from torchsims.cli._train import (
    SHARED,
    Autocast,
    BatchSize,
    Clip,
    Data,
    Decay,
    Dtype,
    Epochs,
    Evaluation,
    Every,
    Jobs,
    MicroBatches,
    Model,
    Out,
    Preset,
    Rate,
    Rescale,
    Resume,
    Root,
    Seeds,
    Tasks,
    Threads,
    Types,
    Warmup,
    Workers,
    again,
    run_comparison,
    run_settings,
)

__all__ = ["TABLES", "table_command"]

TABLES = {
    "methods": "The main table: every method on one data set.",
    "transforms": "SIMS with six transformations of the losses.",
    "normalization": "The merit function, EW and STCH on losses divided by an estimate of their size.",
    "tau": "The temperature of SIMS, as a table and a figure.",
    "lambda": "The proximal weight of SIMS, as a table and a figure.",
    "rescale": "Methods with the losses as they are, and with depth times 100.",
    "starvation": "Where SIMS starves a task, by temperature, augmentation and rates; not in the paper.",
    "aliccp": "Click logs: every method, the AUC of clicks and purchases; made-up logs without --root.",
}
CLICKS = Annotated[
    str | None,
    typer.Option(help="The log, with options: aliccp:rows=1000000 for a longer made-up one.", show_default="aliccp"),
]


def table_command(name: str) -> Callable[..., None]:
    """Return the command that makes a table."""
    module = f"torchsims.experiments.{'lambda_' if name == 'lambda' else name}"

    def table(
        context: typer.Context,
        data: Data = None,
        seeds: Seeds = 1,
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
        from torchsims.experiments._grid import Grid

        given = _given(name, {key: context.params[key] for key in SHARED})
        base = run_settings(given)
        command = again(f"reproduce {name} --seeds {seeds}", given)
        with bad_input():
            comparison = import_module(module).comparison(base, seeds, command)
        folder = out or Path("runs") / name
        run_comparison(comparison, folder, Grid(jobs, checkpoint_every, workers, threads), resume=resume)

    if name == "aliccp":
        table.__annotations__["data"] = CLICKS
    return table


def _given(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a table with those that it takes where it is not told."""
    if name != "aliccp":
        return given
    from torchsims.experiments.aliccp import usual

    with bad_input():
        return usual(given)
