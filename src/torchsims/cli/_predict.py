"""What the model of a run sees in images."""

import time
from pathlib import Path
from typing import Annotated

import typer

from torchsims.cli._inputs import bad_input, claim

__all__ = ["predict"]


def predict(
    run: Annotated[Path, typer.Argument(help="A folder that train left, or one in runs/ of compare.", metavar="RUN")],
    images: Annotated[list[Path], typer.Argument(help="Photographs of any size.", metavar="IMAGE...")],
    out: Annotated[Path | None, typer.Option(help="A new or empty folder; runs/predict by default.")] = None,
) -> None:
    """Write colour maps of every task for some images: IMAGE_TASK.png."""
    from torchsims.experiments.predict import predict_images
    from torchsims.reporting import markdown, write

    begin = time.perf_counter()
    out = out or Path("runs") / "predict"
    with bad_input():
        pictures, report = predict_images(run, images)
    claim(out)
    for name, content in pictures.items():
        (out / name).write_bytes(content)
    write(report, out, time.perf_counter() - begin, into=True)
    typer.echo(markdown(report.rows))
    typer.echo(f"Page: {out / 'report.html'}")
