"""`torchsims diagnose`: what is wrong with the losses and gradients of named data or of a run."""

import time
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchsims.cli._inputs import bad_input, prepare_output_dir
from torchsims.cli._options import add_options, class_names, given_values
from torchsims.cli._train import ConfigFile, Out, base_config
from torchsims.training.config import RunConfig, command_line

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.training import Resolved

MOVABLE = ("root", "batch", "micro_batches", "rescale", "seed")
"""Settings of a run that may be others when it is diagnosed."""
UNUSED = (
    *("method", "epochs", "lr", "warmup", "weight_decay", "clip", "autocast"),
    *("evaluation", "select", "select_by", "patience", "start"),
)
"""Settings that decide nothing before the first step."""


def _diagnose(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a run: its trained model on its data.", metavar="RUN")
    ] = None,
    config: ConfigFile = None,
    batches: Annotated[int, typer.Option(help="Batches to look at, at most.", min=1)] = 8,
    out: Out = None,
    *,
    given: dict[str, Any],
) -> None:
    """Say what is wrong with the losses and gradients of a new model on named data, or of the model of a run."""
    begin = time.perf_counter()
    with bad_input():
        resolved = _resolve(run, config, given)
    from torchsims.reporting import diagnosis_report, write_report
    from torchsims.training.diagnosing import diagnose_training
    from torchsims.training.world import first_process, processes

    out = out or Path("runs") / "diagnosis"
    if first_process():
        prepare_output_dir(out)
    with bad_input():
        resolved.check_batches(processes())
        found = diagnose_training(resolved, run, batches=batches)
    if not first_process():
        return
    words = ["torchsims", "diagnose", *([str(run)] if run else []), *(["--config", str(config)] if config else [])]
    command = join(command_line(words, {**given, "batches": batches}))
    settings = {name: value for name, value in resolved.config.to_dict().items() if name not in UNUSED}
    title = f"Diagnosis of {run}" if run else f"Diagnosis of {resolved.config.data.partition(':')[0]}"
    report = diagnosis_report(found, title, command, {**settings, "batches": batches})
    with bad_input():
        write_report(report, out, time.perf_counter() - begin, into=True)
    typer.echo(str(found))
    typer.echo(f"\nPage: {out / 'report.html'}")


def _resolve(run: Path | None, config: Path | None, given: dict[str, Any]) -> "Resolved":
    from torchsims.training import complete_config, resolve
    from torchsims.training.predict import read_run_config

    if run is None:
        return resolve(base_config(given, config))
    stored = read_run_config(run)
    if stored is None:
        raise ValueError(f"There is no run with a checkpoint in `{run}`.")
    if config is not None:
        raise ValueError(f"Option --config is for data without a run. Found `--config {config}` and the run `{run}`.")
    chosen = complete_config(stored.to_dict() | given_values(given, RunConfig))
    for name, value in stored.to_dict().items():
        if name not in MOVABLE and chosen.to_dict()[name] != value:
            raise ValueError(f"The run has `{name} = {value}`. Found `{name} = {chosen.to_dict()[name]}`.")
    return resolve(chosen, named=class_names(given))


diagnose = add_options(_diagnose, RunConfig, without=UNUSED)
