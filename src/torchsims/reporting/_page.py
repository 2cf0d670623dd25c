"""One HTML page without any file beside it."""

import base64
import re
import struct
from collections.abc import Mapping, Sequence
from html import escape

from torchsims.reporting._columns import Column, Row, arrange
from torchsims.reporting._style import STYLE

__all__ = ["page"]

LONG = 15  # a longer table stands behind the figures
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
"""


def page(
    title: str,
    *,
    command: str,
    notes: Sequence[str],
    images: Mapping[str, bytes],
    tables: Mapping[str, Sequence[Row]],
    facts: Mapping[str, Mapping[str, object]],
    captions: Mapping[str, str] | None = None,
    columns: Sequence[Column] = (),
) -> str:
    """Return the page: the first table, the figures, the other tables, then what is needed to do it again.

    Args:
        title: what was done, in a few words.
        command: the command that does it again.
        notes: sentences for the top of the page.
        images: PNG files by name.
        tables: rows by name; a long first table stands behind the figures.
        facts: settings and versions, folded up at the end.
        captions: a sentence for some of the images.
        columns: how to show some columns, of all tables.

    Example:
        >>> text = page("Runs", command="torchsims", notes=["A < B."], images={}, tables={}, facts={})
        >>> "<p>A &lt; B.</p>" in text
        True
    """
    captions = captions or {}
    shown = {name: _table(name, rows, columns) for name, rows in tables.items() if rows}
    pictures = "".join(_figure(name, data, captions.get(name)) for name, data in images.items())
    first = [name for name, rows in list(tables.items())[:1] if name in shown and len(rows) <= LONG]
    sections = {name: shown[name] for name in first}
    sections |= {"Figures": pictures} if pictures else {}
    sections |= {name: text for name, text in shown.items() if name not in first}
    sections["To do it again"] = f'<pre tabindex="0">{escape(command)}</pre>' + "".join(map(_fold, facts.items()))
    body = [f"<header><h1>{escape(title)}</h1>", *(f"<p>{escape(note)}</p>" for note in notes), "</header>"]
    body += [_contents(sections), "<main>", *(_section(name, text) for name, text in sections.items()), "</main>"]
    return (
        f"{HEAD}<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name).strip("-").lower() or "section"


def _contents(sections: Mapping[str, str]) -> str:
    links = "".join(f'<a href="#{_anchor(name)}">{escape(name)}</a> ' for name in sections)
    return f'<nav aria-label="Contents">{links}</nav>'


def _section(name: str, text: str) -> str:
    return f'<section id="{_anchor(name)}">\n<h2>{escape(name)}</h2>\n{text}\n</section>'


def _fold(fact: tuple[str, Mapping[str, object]]) -> str:
    name, values = fact
    rows = [{"name": key, "value": value} for key, value in values.items()]
    return f"<details><summary>{escape(name)}</summary>{_table(name, rows, ())}</details>"


def _figure(name: str, data: bytes, caption: str | None) -> str:
    width, height = struct.unpack(">II", data[16:24])  # where a PNG file has its size
    label = escape(caption or name.replace("_", " ").capitalize())
    source = base64.b64encode(data).decode()
    image = f'<img alt="{label}" width="{width}" height="{height}" src="data:image/png;base64,{source}">'
    return f"<figure>{image}<figcaption>{label}</figcaption></figure>"


def _table(name: str, rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Return a table that scrolls by itself where the screen is too narrow for it."""
    shown = arrange(rows, columns)
    head = "".join(
        f'<th scope="col">{escape(column.header).replace(" ↑", "&nbsp;↑").replace(" ↓", "&nbsp;↓")}</th>'
        for column in shown
    )
    cells = [_cells(column, rows) for column in shown]
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{text}</td>" for text in rest)}</tr>\n'
        for first, *rest in zip(*cells, strict=True)
    )
    return (
        f'<div class="wide" role="region" aria-label="{escape(name)}" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _cells(column: Column, rows: Sequence[Row]) -> list[str]:
    best = column.best(rows)
    texts = [escape(text) for text in column.cells(rows)]
    return [f"<b>{text}</b>" if i in best else text for i, text in enumerate(texts)]
