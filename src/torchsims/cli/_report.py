"""One page of runs that are finished."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from torchsims.cli._inputs import bad_input, claim, warn_starved
from torchsims.cli._train import Out

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that train or compare left.", metavar="RUN...")],
    baseline: Annotated[str | None, typer.Option(help="The label that Delta_b is relative to; EW if there.")] = None,
    out: Out = None,
) -> None:
    """Write one page of finished runs."""
    from torchsims.experiments.compare import find_runs
    from torchsims.reporting import comparison_report, markdown, write_report

    begin = time.perf_counter()
    with bad_input():
        found = find_runs(runs)
        labels = list(dict.fromkeys(run.label for run in found))
        if baseline is not None and baseline not in labels:
            raise ValueError(f"Parameter `baseline` should be one of {'; '.join(labels)}. Found `{baseline}`.")
    out = out or Path("runs") / "report"
    claim(out)
    command = f"torchsims report {shlex.join(map(str, runs))}"
    page = comparison_report("Finished runs", command, found, baseline=baseline or "EW")
    write_report(page, out, time.perf_counter() - begin)
    typer.echo(markdown(page.rows, page.columns))
    typer.echo(f"Page: {out / 'report.html'}")
    warn_starved(page)
