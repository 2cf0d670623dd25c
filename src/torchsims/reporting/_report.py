"""The result of a command, and the folder that it is written to."""

import json
import math
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from torchsims.reporting._page import render_page
from torchsims.reporting._tables import Column, Row, file_name, markdown
from torchsims.training.run import DataSummary, Run

if TYPE_CHECKING:  # matplotlib is only imported by those who draw, torch by those who compute
    from matplotlib.figure import Figure

    from torchsims.diagnosis import Diagnosis
    from torchsims.reporting._verdict import Verdict

RESULTS = "results.json"


@dataclass(frozen=True)
class Starved:
    """Tasks that one run gave almost no weight although they could be learned."""

    label: str
    seed: int
    tasks: Sequence[str]
    split: int = 0

    def __str__(self) -> str:
        return f"{_name(self)}, gave almost no weight to {', '.join(self.tasks)}."


@dataclass(frozen=True)
class Failure:
    """A run that failed, and why."""

    label: str
    seed: int
    sentence: str
    split: int = 0

    def __str__(self) -> str:
        return f"{_name(self)}: {self.sentence}"


def _name(entry: Starved | Failure) -> str:
    return f"{entry.label}, seed {entry.seed}" + (f", split {entry.split}" if entry.split else "")


@dataclass(frozen=True, eq=False)
class Report:
    """The result of a command.

    Example:
        >>> Report("Runs", "torchsims compare", {"seeds": 1}, [{"method": "EW"}]).notes
        ()
    """

    title: str
    command: str  # the one that repeats it
    settings: Mapping[str, object]  # as JSON can hold them
    rows: Sequence[Row]  # the table of results
    last_rows: Sequence[Row] = ()  # the same after the last epoch, if epochs were selected
    details: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # further tables, by name
    figures: Mapping[str, "Figure"] = field(default_factory=dict)  # by name; saved as PNG files
    notes: Sequence[str] = ()  # sentences for the top of the page
    captions: Mapping[str, str] = field(default_factory=dict)  # a sentence under some of the figures, by name
    columns: Sequence[Column] = ()  # how to show some columns of the tables
    starved: Sequence[Starved] = ()
    failures: Sequence[Failure] = ()
    run: Run | None = None  # if it is the report of one; only in ``results.json``
    diagnosis: "Diagnosis | None" = None  # if it is the report of one; only in ``results.json``
    verdict: "Verdict | None" = None  # of a comparison
    data: DataSummary | None = None
    downloads: Sequence[str] = ()  # names of files beside the page that it links to


def check_output_dir(out: Path) -> None:
    """Raise an error if a folder holds anything already.

    Example:
        >>> check_output_dir(Path("/etc"))
        Traceback (most recent call last):
        ValueError: Parameter `out` should be a new or empty folder. Found `out = /etc`.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"Parameter `out` should be a new or empty folder. Found `out = {out}`.")


def write_report(report: Report, out: Path, seconds: float, *, into: bool = False) -> None:
    """Write ``results.json``, ``table.md``, the figures and ``report.html`` to ``out``: complete files or none.

    The folder is new or empty, and all files appear at once. ``into`` a folder with other files, which stay as they
    are, files appear when all of them are written, ``results.json`` last: it marks the folder as finished. ``seconds``,
    how long it took, are only in ``results.json``, so that everything else is the same every time.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(Report("Runs", "torchsims", {}, [{"method": "EW"}]), Path(folder) / "out", 1.0)
        ...     sorted(path.name for path in (Path(folder) / "out").iterdir())
        ['report.html', 'results.json', 'table.md']
    """
    if into:
        if not out.is_dir():
            raise ValueError(f"Parameter `out` should be a folder that exists. Found `out = {out}`.")
        with _temporary_folder(out) as folder:
            _write_files(folder, report, seconds)
            for name in sorted(os.listdir(folder), key=lambda name: (name == RESULTS, name)):
                os.replace(folder / name, out / name)
        return
    check_output_dir(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _temporary_folder(out.parent, out.name) as folder:
        _write_files(folder, report, seconds)
        folder.chmod(0o755)  # mkdtemp makes it private
        os.replace(folder, out)


@contextmanager
def _temporary_folder(parent: Path, name: str = "report") -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        yield folder
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} while writing to `{parent}`") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _versions() -> Mapping[str, str]:
    return {name: version(name) for name in ("torchsims", "torch", "numpy")} | {"python": platform.python_version()}


def _write_files(folder: Path, report: Report, seconds: float) -> None:
    versions = _versions()
    images = {name: folder / f"{file_name(name)}.png" for name in report.figures}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # names may have letters that the font does not have
        for name, figure in report.figures.items():
            figure.savefig(images[name], dpi=130, metadata={"Software": None})
            figure.set_layout_engine("none")  # everything has its place: the page draws it once more
    tables = {"": report.rows, **report.details}
    text = [(f"**{name}**\n\n" if name else "") + markdown(rows, report.columns) for name, rows in tables.items()]
    page = render_page(report, {name: path.read_bytes() for name, path in images.items()}, versions)
    (folder / "report.html").write_text(page, encoding="utf-8", errors="backslashreplace")
    (folder / "table.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    results = json.dumps(_json_value(_results(report, versions, seconds)), indent=1, allow_nan=False)
    (folder / RESULTS).write_text(results + "\n", encoding="utf-8")
    with ThreadPoolExecutor() as pool:  # the disk takes about as long for all of them as for one
        list(pool.map(_wait_for_disk, folder.iterdir()))


def _wait_for_disk(path: Path) -> None:
    """Wait until a file is written; some file systems only say here that the disk is full."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _results(report: Report, versions: Mapping[str, str], seconds: float) -> dict[str, object]:
    return {
        "command": report.command,
        "settings": report.settings,
        "versions": versions,
        "seconds": round(seconds, 3),
        "rows": report.rows,
        **({"last_rows": report.last_rows} if report.last_rows else {}),
        "notes": report.notes,
        "starved": [asdict(entry) for entry in report.starved],
        "failures": [asdict(entry) for entry in report.failures],
        **({"details": report.details} if report.details else {}),
        **({} if report.verdict is None else {"verdict": _verdict(report.verdict)}),
        **({} if report.data is None else {"data": asdict(report.data)}),
        **({} if report.run is None else {"run": report.run.to_dict()}),
        **({} if report.diagnosis is None else {"diagnosis": report.diagnosis.to_dict()}),
    }


def _verdict(verdict: "Verdict") -> dict[str, object]:
    return {"sentences": verdict.sentences, "tied": verdict.tied, **asdict(verdict)}


def _json_value(value: object) -> object:
    """Return a value as JSON can hold it: lists for tuples, and null for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
