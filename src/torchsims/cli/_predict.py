"""What the model of a run says about images or rows."""

import time
from pathlib import Path
from typing import Annotated

import typer

from torchsims.cli._inputs import bad_input, claim

__all__ = ["predict"]


def predict(
    run: Annotated[Path, typer.Argument(help="A folder that train left, or one in runs/ of compare.", metavar="RUN")],
    files: Annotated[
        list[Path], typer.Argument(help="Photographs of any size, or tables with the features.", metavar="FILE...")
    ],
    out: Annotated[Path | None, typer.Option(help="A new or empty folder; runs/predict by default.")] = None,
) -> None:
    """Write colour maps of every task for images, IMAGE_TASK.png, or the targets of rows, TABLE_predictions.csv."""
    from torchsims.experiments.predict import predict_files
    from torchsims.reporting import markdown, write_report

    begin = time.perf_counter()
    out = out or Path("runs") / "predict"
    with bad_input():
        found, report = predict_files(run, files)
    claim(out)
    for name, content in found.items():
        (out / name).write_bytes(content)
    write_report(report, out, time.perf_counter() - begin, into=True)
    typer.echo(markdown(report.rows))
    typer.echo(f"Page: {out / 'report.html'}")
