"""Commands on runs that are there: predict, report, export."""

import time
from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from torchsims.cli._inputs import bad_input, prepare_output_dir
from torchsims.cli._train import Out, print_report

RunFolder = Annotated[
    Path,
    typer.Argument(help="Folder that train or front left, or one in runs/.", metavar="RUN", show_default=False),
]
Named = Annotated[
    list[str] | None,
    typer.Option("--data", "--model", help="package.module:Class that the run names and that may be imported."),
]


def predict(
    run: RunFolder,
    files: Annotated[list[Path], typer.Argument(help="Images, or tables with the features.", metavar="FILE...")],
    out: Out = None,
    named: Named = None,
) -> None:
    """Predict every task for images (colour maps, IMAGE_TASK.png) or rows of tables (TABLE_predictions.csv)."""
    from torchsims.reporting import markdown, output_names, prediction_report, write_report
    from torchsims.training import load
    from torchsims.training.checkpoints import replace_file

    begin = time.perf_counter()
    out = out or Path("runs") / "predict"
    with bad_input():
        output_names(files)
        predictor = load(run, named=named or ())
        contents, report = prediction_report(run, [predictor.predict_file(path) for path in files])
    prepare_output_dir(out)
    with bad_input():
        for name, content in contents.items():
            replace_file(out / name, content)
        write_report(report, out, time.perf_counter() - begin, into=True)
    typer.echo(markdown(report.rows))
    typer.echo(f"Page: {out / 'report.html'}")


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that train or compare left.", metavar="RUN...")],
    baseline: Annotated[str | None, typer.Option(help="Label that Delta_b is relative to; EW by default.")] = None,
    out: Out = None,
) -> None:
    """Write one page of finished runs."""
    from torchsims.reporting import comparison_report, write_report
    from torchsims.sweeps import find_runs

    begin = time.perf_counter()
    with bad_input():
        found = find_runs(runs)
        labels = list(dict.fromkeys(run.label for run in found))
        if baseline is not None and baseline not in labels:
            raise ValueError(f"Parameter `baseline` should be one of {'; '.join(labels)}. Found `{baseline}`.")
        equal_weights = [run.label for run in found if run.config.method == "ew"]
        chosen = baseline or ("EW" if "EW" in labels else next(iter(equal_weights), "EW"))
    out = out or Path("runs") / "report"
    prepare_output_dir(out)
    chosen_by = [] if baseline is None else ["--baseline", baseline]
    command = join(["torchsims", "report", *map(str, runs), *chosen_by])
    page = comparison_report("Finished runs", command, found, baseline=chosen)
    with bad_input():
        write_report(page, out, time.perf_counter() - begin, into=True)
    print_report(page, out)


def export(
    run: RunFolder,
    formats: Annotated[str, typer.Option(help="safetensors, pt2 (torch.export) or onnx, separated by commas.")] = (
        "safetensors"
    ),
    out: Out = None,
    named: Named = None,
) -> None:
    """Write the model of a run for use without torchsims."""
    from torchsims.registry import split_list
    from torchsims.training import export_run

    out = out or Path("runs") / "export"
    prepare_output_dir(out)
    with bad_input():
        paths = export_run(run, out, split_list(formats), named=named or ())
    for path in paths:
        typer.echo(f"Written: {path}")
