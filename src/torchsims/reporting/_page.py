"""A report as one HTML page that loads nothing: the template ``page.html.jinja`` with the style sheet ``page.css``."""

import base64
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from torchsims.reporting._tables import Column, Row, arrange_columns

if TYPE_CHECKING:
    from jinja2 import Template

    from torchsims.reporting._report import Report

LONG = 15  # rows; a longer table of results stands behind the figures


class Picture(NamedTuple):
    """A PNG file on the page."""

    caption: str
    width: int
    height: int
    source: str


class PageTable(NamedTuple):
    """A table on the page; a cell is its text and whether it is the best of its column."""

    header: list[str]
    rows: list[tuple[tuple[str, bool], ...]]


def render_page(report: "Report", images: Mapping[str, bytes], versions: Mapping[str, str]) -> str:
    """Return the page: the results, the figures, the other tables, then what is needed to repeat the command.

    ``images`` are the figures of the report as PNG files, by name.
    """
    tables = {"Results": report.rows, **report.details}
    sections: dict[str, PageTable | list[Picture]] = {
        name: _table(rows, report.columns) for name, rows in tables.items() if rows
    }
    if images:
        captions = {name: report.captions.get(name) or name.replace("_", " ").capitalize() for name in images}
        pictures = [_picture(captions[name], data) for name, data in images.items()]
        first = {"Results": sections.pop("Results")} if 0 < len(report.rows) <= LONG else {}
        sections = {**first, "Figures": pictures, **sections}
    facts = {
        name: _table([{"name": key, "value": value} for key, value in values.items()])
        for name, values in (("Settings", report.settings), ("Versions", versions))
    }
    return _template().render(report=report, sections=sections, facts=facts, style=_read("page.css"))


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read("page.html.jinja"))


def _read(name: str) -> str:
    return files("torchsims.reporting").joinpath(name).read_text(encoding="utf-8")


def _picture(caption: str, data: bytes) -> Picture:
    width, height = struct.unpack(">II", data[16:24])  # where a PNG file has its size
    return Picture(caption, width, height, base64.b64encode(data).decode())


def _table(rows: Sequence[Row], known: Sequence[Column] = ()) -> PageTable:
    columns = arrange_columns(rows, known)
    cells = []
    for column in columns:
        best = column.best(rows)
        cells.append([(text, i in best) for i, text in enumerate(column.cells(rows))])
    return PageTable([column.header for column in columns], list(zip(*cells, strict=True)))
