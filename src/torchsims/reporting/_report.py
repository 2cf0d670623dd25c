"""The folder that a command leaves behind."""

import json
import math
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from torchsims.reporting._page import page
from torchsims.reporting._tables import Row, markdown

if TYPE_CHECKING:  # plots are only imported by those who draw them
    from matplotlib.figure import Figure

__all__ = ["Report", "Row", "check_out", "write"]


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
        notes: sentences for the reader of the page.
    """

    title: str
    command: str
    settings: Mapping[str, object]
    rows: Sequence[Row]
    details: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    figures: Mapping[str, "Figure"] = field(default_factory=dict)
    notes: Sequence[str] = ()


def check_out(out: Path) -> None:
    """Refuse a place that holds anything already.

    Example:
        >>> check_out(Path("/etc"))
        Traceback (most recent call last):
        ValueError: Parameter `out` should be a new or empty folder. Found `out = /etc`.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"Parameter `out` should be a new or empty folder. Found `out = {out}`.")


def write(report: Report, out: Path, seconds: float) -> None:
    """Write ``results.json``, ``table.md``, the figures and ``report.html`` to ``out``: all of them or nothing.

    Args:
        report: the result.
        out: a new or empty folder.
        seconds: how long it took; only in ``results.json``, so that everything else is the same every time.
    """
    check_out(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        _fill(folder, report, seconds)
        folder.chmod(0o755)  # mkdtemp makes it private
        os.replace(folder, out)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(folder: Path, report: Report, seconds: float) -> None:
    versions = {name: version(name) for name in ("torchsims", "torch", "numpy")} | {"python": platform.python_version()}
    results = {
        "command": report.command,
        "settings": report.settings,
        "versions": versions,
        "seconds": round(seconds, 3),
        "rows": report.rows,
        **({"details": report.details} if report.details else {}),
    }
    (folder / "results.json").write_text(json.dumps(_plain(results), indent=1, allow_nan=False) + "\n")
    tables = [markdown(report.rows), *(f"**{name}**\n\n{markdown(rows)}" for name, rows in report.details.items())]
    (folder / "table.md").write_text("\n\n".join(tables) + "\n")
    for name, figure in report.figures.items():
        figure.savefig(folder / f"{name}.png", dpi=130, metadata={"Software": None})
    images = {name: (folder / f"{name}.png").read_bytes() for name in report.figures}
    (folder / "report.html").write_text(
        page(
            report.title,
            command=report.command,
            notes=report.notes,
            images=images,
            tables={"Results": report.rows, **report.details},
            facts={"Settings": report.settings, "Versions": versions},
        )
    )


def _plain(value: object) -> object:
    """Return a value as JSON has it: tuples as lists, and null for numbers that are none."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
