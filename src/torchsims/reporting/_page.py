"""A report as one HTML page that loads nothing: ``page.html.jinja`` with the style sheet and the script inside."""

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from torchsims.reporting._tables import Column, Row, arrange_columns

if TYPE_CHECKING:
    from jinja2 import Template

    from torchsims.reporting._report import Report

BROAD = 5.2  # inches, from which on a figure does not fit beside another one
LONG = 15  # rows; a longer table of results stands behind the figures


class Picture(NamedTuple):
    """A figure on the page: drawn in SVG, or a PNG file."""

    caption: str
    broad: bool  # takes the whole width of a page
    svg: str | None = None
    source: str = ""
    width: int = 0
    height: int = 0


class Head(NamedTuple):
    """The head of a column, and the task that its numbers are of."""

    text: str
    task: str | None


class PageTable(NamedTuple):
    """A table on the page; a cell is its text and whether it is the best of its column."""

    header: list[Head]
    rows: list[tuple[tuple[str, bool], ...]]


def render_page(report: "Report", images: Mapping[str, bytes], versions: Mapping[str, str]) -> str:
    """Return the page: verdict, data, results, figures, other tables, then what is needed to repeat the command.

    ``images`` are the figures of the report as PNG files, by name, for those that would be very large in SVG.
    """
    tables = {"Results": report.rows, **report.details}
    sections: dict[str, PageTable | list[Picture]] = {
        name: _table(rows, report.columns) for name, rows in tables.items() if rows
    }
    if images:
        pictures = [_picture(report, name, data, f"f{i}") for i, (name, data) in enumerate(images.items())]
        first = {"Results": sections.pop("Results")} if 0 < len(report.rows) <= LONG else {}
        sections = {**first, "Figures": pictures, **sections}
    facts = {
        name: _table([{"name": key, "value": value} for key, value in values.items()])
        for name, values in (("Settings", report.settings), ("Versions", versions))
    }
    script = _read("page.js")
    return _template().render(
        report=report,
        sections=sections,
        columns_read=_table(report.data.columns if report.data else ()),
        facts=facts,
        style=_read("page.css"),
        script=script,
        digest="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read("page.html.jinja"))


def _read(name: str) -> str:
    return files("torchsims.reporting").joinpath(name).read_text(encoding="utf-8")


def _picture(report: "Report", name: str, data: bytes, prefix: str) -> Picture:
    from torchsims.reporting._svg import figure_svg

    caption = report.captions.get(name) or name.replace("_", " ").capitalize()
    svg = figure_svg(report.figures[name], caption, prefix)
    broad = bool(report.figures[name].get_size_inches()[0] > BROAD)
    if svg is not None:
        return Picture(caption, broad, svg)
    width, height = struct.unpack(">II", data[16:24])  # where a PNG file has its size
    return Picture(caption, broad, None, base64.b64encode(data).decode(), width, height)


def _table(rows: Sequence[Row], known: Sequence[Column] = ()) -> PageTable:
    columns = arrange_columns(rows, known)
    cells = []
    for column in columns:
        best = column.best(rows)
        cells.append([(text, i in best) for i, text in enumerate(column.cells(rows))])
    return PageTable([Head(column.header, column.task) for column in columns], list(zip(*cells, strict=True)))
