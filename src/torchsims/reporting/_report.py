"""The folder that a command leaves behind."""

import json
import math
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from torchsims.reporting._columns import Column, Row
from torchsims.reporting._page import page
from torchsims.reporting._tables import markdown

if TYPE_CHECKING:  # plots are only imported by those who draw them
    from matplotlib.figure import Figure

__all__ = ["Report", "check_out", "write"]

RESULTS = "results.json"


@dataclass(frozen=True, eq=False)
class Report:
    """The result of a command.

    Attributes:
        title: what was done, in a few words.
        command: the command that does it again.
        settings: everything that was chosen, as JSON can hold it.
        rows: the table of results.
        details: further tables, by name.
        figures: by name; saved as ``name.png``.
        notes: sentences for the top of the page.
        captions: a sentence under some of the figures, by name.
        columns: how to show some columns of the tables.
        history: what else to keep in ``results.json``, as JSON can hold it; the page does not show it.

    Example:
        >>> Report("Runs", "torchsims compare", {"seeds": 1}, [{"method": "EW"}]).notes
        ()
    """

    title: str
    command: str
    settings: Mapping[str, object]
    rows: Sequence[Row]
    details: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    figures: Mapping[str, "Figure"] = field(default_factory=dict)
    notes: Sequence[str] = ()
    captions: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[Column] = ()
    history: object = None


def check_out(out: Path) -> None:
    """Refuse a place that holds anything already.

    Example:
        >>> check_out(Path("/etc"))
        Traceback (most recent call last):
        ValueError: Parameter `out` should be a new or empty folder. Found `out = /etc`.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"Parameter `out` should be a new or empty folder. Found `out = {out}`.")


def write(report: Report, out: Path, seconds: float, *, into: bool = False) -> None:
    """Write ``results.json``, ``table.md``, the figures and ``report.html`` to ``out``: whole files only.

    Args:
        report: the result.
        out: a new or empty folder, in which all files appear at once.
        seconds: how long it took; only in ``results.json``, so that everything else is the same every time.
        into: ``out`` is a folder that holds other files; they stay as they are. Files appear when all of them are
            written, ``results.json`` last: it marks the folder as finished.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(Report("Runs", "torchsims", {}, [{"method": "EW"}]), Path(folder) / "out", 1.0)
        ...     sorted(path.name for path in (Path(folder) / "out").iterdir())
        ['report.html', 'results.json', 'table.md']
    """
    if into:
        if not out.is_dir():
            raise ValueError(f"Parameter `out` should be a folder that exists. Found `out = {out}`.")
        with _temporary(out) as folder:
            _fill(folder, report, seconds)
            for name in sorted(os.listdir(folder), key=lambda name: (name == RESULTS, name)):
                os.replace(folder / name, out / name)
        return
    check_out(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(out.parent, out.name) as folder:
        _fill(folder, report, seconds)
        folder.chmod(0o755)  # mkdtemp makes it private
        os.replace(folder, out)


@contextmanager
def _temporary(parent: Path, name: str = "report") -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, report: Report, seconds: float) -> None:
    versions = {name: version(name) for name in ("torchsims", "torch", "numpy")} | {"python": platform.python_version()}
    results = {
        "command": report.command,
        "settings": report.settings,
        "versions": versions,
        "seconds": round(seconds, 3),
        "rows": report.rows,
        "notes": report.notes,
        **({"details": report.details} if report.details else {}),
        **({} if report.history is None else {"history": report.history}),
    }
    tables = {"": report.rows, **report.details}
    text = [(f"**{name}**\n\n" if name else "") + markdown(rows, report.columns) for name, rows in tables.items()]
    for name, figure in report.figures.items():
        figure.savefig(folder / f"{name}.png", dpi=130, metadata={"Software": None})
    html = page(
        report.title,
        command=report.command,
        notes=report.notes,
        images={name: (folder / f"{name}.png").read_bytes() for name in report.figures},
        tables={"Results": report.rows, **report.details},
        facts={"Settings": report.settings, "Versions": versions},
        captions=report.captions,
        columns=report.columns,
    )
    (folder / "report.html").write_text(html, encoding="utf-8")
    (folder / "table.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")
    (folder / RESULTS).write_text(json.dumps(_plain(results), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for path in folder.iterdir():  # some file systems only say here that the disk is full
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def _plain(value: object) -> object:
    """Return a value as JSON has it: tuples as lists, and null for numbers that are none."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
