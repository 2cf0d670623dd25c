"""`torchsims models`."""

from typing import Annotated

import typer

from torchsims.cli._inputs import bad_input


def models(
    model: Annotated[
        str | None, typer.Argument(help="Count the parameters of this one: mtan:encoder=resnet50.")
    ] = None,
    data: Annotated[str, typer.Option(help="Data whose tasks the counted model has.")] = "nyuv2",
) -> None:
    """List every architecture and encoder with its options, or count the parameters of one."""
    from torchsims.models import ENCODERS, model_catalogue, parameter_table
    from torchsims.reporting import markdown

    with bad_input():
        if model is None:
            typer.echo(markdown(model_catalogue()))
            typer.echo(f"\nEncoders of images: {', '.join(ENCODERS)}, or a folder or hub id with pretrained weights.")
            typer.echo("Options follow a name after colons: mtan:encoder=resnet50:norm=batch, stl:of=mmoe.")
            return
        import torch

        from torchsims.workloads import load_workload

        workload = load_workload(data)
        text = workload.check_model(model)
        with torch.random.fork_rng(devices=[]), torch.device("meta"):  # shapes only: no memory, no weights
            made = workload.build_model(text)
        typer.echo(f"{text} on {data} ({', '.join(workload.tasks)})\n")
        typer.echo(markdown(parameter_table(made)))
