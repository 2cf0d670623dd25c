"""The command that says what a comparison will cost before it is started."""

import time
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchsims.cli._inputs import bad_input, prepare_output_dir
from torchsims.cli._options import add_options, given_values
from torchsims.cli._train import ConfigFile, Out, base_config
from torchsims.training.config import ComparisonConfig, Execution, RunConfig, command_line

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.reporting import Row
    from torchsims.training import Cost, Device

Steps = Annotated[int, typer.Option("--steps", min=1, help="Steps to measure of each method.")]
Tflops = Annotated[float, typer.Option("--tflops", min=0, help="Peak of another device, in TFLOPS: estimate for it.")]
Bandwidth = Annotated[float, typer.Option("--bandwidth", min=0, help="Its memory bandwidth, in GB per second.")]
Utilisation = Annotated[float, typer.Option("--utilisation", help="Share of both that training reaches.")]


def _plan(
    config: ConfigFile = None,
    out: Out = None,
    steps: Steps = 5,
    tflops: Tflops = 0.0,
    bandwidth: Bandwidth = 0.0,
    utilisation: Utilisation = 0.3,
    *,
    given: dict[str, Any],
) -> None:
    """Say what a comparison will cost: time and memory, from a few steps of each method."""
    import torch

    from torchsims.reporting import Report, markdown, write_report
    from torchsims.sweeps import method_grid
    from torchsims.sweeps.local import count_processes
    from torchsims.training import Device, measure_cost, resolve

    chosen = ComparisonConfig(**given_values(given, ComparisonConfig))
    execution = Execution(**given_values(given, Execution))
    with bad_input():
        if (tflops > 0) != (bandwidth > 0):
            raise ValueError("Parameters `tflops` and `bandwidth` describe another device together. Found one of them.")
        device = Device(tflops, bandwidth, utilisation) if tflops else None
        resolved = [resolve(each) for each in method_grid(base_config(given, config), chosen.methods, 1)]
        for each in resolved:
            each.check_batches()
    out = out or Path("runs") / "plan"
    prepare_output_dir(out)
    begin = time.perf_counter()
    torch.set_num_threads(max(1, execution.threads))
    with bad_input():
        costs = [measure_cost(each, execution, steps) for each in resolved]
    runs = len(costs) * chosen.seeds
    at_once = count_processes(execution, runs)
    rows = [_row(cost, chosen.seeds, device) for cost in costs]
    hours = sum(cost.seconds for cost in costs) * chosen.seeds / 3600
    notes = [
        f"{runs} runs take about {hours:.3g} hours of one process on this machine, {hours / at_once:.3g} with "
        f"{at_once} at a time; measured on a few steps, while nothing else should be running."
    ]
    if device is not None:
        notes.append(
            f"Estimated, not measured: a device of {tflops:g} TFLOPS and {bandwidth:g} GB per second, of which "
            f"training reaches {utilisation:.0%}."
        )
    words = ["torchsims", "plan", *(["--config", str(config)] if config else [])]
    settings = {"steps": steps, "tflops": tflops, "bandwidth": bandwidth, "utilisation": utilisation}
    command = join(command_line(words, {**given, **settings}))
    title = "What the comparison will cost"
    report = Report(
        title, command, {**resolved[0].config.to_dict(), **settings, "seeds": chosen.seeds}, rows, notes=notes
    )
    write_report(report, out, time.perf_counter() - begin, into=True)
    typer.echo(markdown(rows))
    for note in notes:
        typer.echo(note)
    typer.echo(f"Page: {out / 'report.html'}")


def _row(cost: "Cost", seeds: int, device: "Device | None") -> "Row":
    estimated = {} if device is None else {"minutes per run, estimated": cost.seconds_on(device) / 60}
    return {
        "method": cost.label,
        "passes": cost.passes,
        "steps": cost.steps,
        "ms per step": 1000 * cost.seconds_per_step,
        "minutes per run": cost.seconds / 60,
        "runs": seeds,
        "GFLOP per step": cost.flops / 1e9,
        "GB moved per step": cost.moved / 1e9,
        "peak memory, MB": cost.peak / 1e6,
        **estimated,
    }


plan = add_options(_plan, ComparisonConfig, RunConfig, Execution, without=("method", "seed", "tune", "tag"))
