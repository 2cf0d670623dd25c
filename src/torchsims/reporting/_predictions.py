"""The page of predictions: colour maps of images, or files of numbers."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from torchsims.reporting._pictures import colour_map, picture_row, png
from torchsims.reporting._report import Report
from torchsims.reporting._tables import Row, file_name
from torchsims.workloads import FilePrediction


def output_names(paths: Sequence[Path]) -> list[str]:
    """Return how the output files of each input file begin; input files of one name are an error.

    Example:
        >>> output_names([Path("a/room.jpg"), Path("rows.csv.gz")])
        ['room', 'rows']
    """
    names = [path.name.removesuffix(".gz").rpartition(".")[0] or path.name for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Files should have distinct names. Found more than one `{twice[0]}`.")
    return names


def prediction_report(run: Path, found: Sequence[FilePrediction]) -> tuple[dict[str, bytes], Report]:
    """Return what the model of the folder ``run`` predicts as files by name, and the report that shows it.

    Example:
        >>> rows, content = [{"task": "y", "rows": 1}], {"predictions.csv": b"y,1.5"}
        >>> files, report = prediction_report(Path("runs/a b"), [FilePrediction(Path("t.csv"), {}, rows, "", content)])
        >>> files, report.command
        ({'t_predictions.csv': b'y,1.5'}, "torchsims predict 'runs/a b' t.csv")
    """
    files: dict[str, bytes] = {}
    drawn: dict[str, Figure] = {}
    rows: list[Row] = []
    for name, entry in zip(output_names([entry.path for entry in found]), found, strict=True):
        written = {f"{name}_{end}": content for end, content in entry.files.items()}
        files |= written
        if entry.image is None:
            rows += [{**row, "file": ", ".join(written)} for row in entry.rows]
            continue
        shown = {"image": entry.image}
        for row in entry.rows:
            task = row["task"]
            picture, *_ = colour_map(entry.arrays[task], kind=entry.shown_as[task])
            assert picture is not None
            target = _free_name(f"{name}_{file_name(task)}", files)
            shown[task], files[target] = picture, png(picture)
            rows.append({**row, "file": target})
        drawn[f"{name}_all"] = picture_row(shown)
    return files, Report(
        title="Predictions",
        command=shlex.join(["torchsims", "predict", str(run), *(str(entry.path) for entry in found)]),
        settings={"run": str(run)},
        rows=rows,
        figures={_free_name(name, files).removesuffix(".png"): figure for name, figure in drawn.items()},
        notes=list(dict.fromkeys(entry.note for entry in found if entry.note)),
        downloads=list(files),
    )


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """Return a name for a PNG file that no other file has: a task may be called ``all``."""
    while f"{name}.png" in taken:
        name += "_"
    return f"{name}.png"
