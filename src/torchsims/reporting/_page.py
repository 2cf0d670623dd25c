"""One HTML page without any file beside it."""

import base64
from collections.abc import Mapping, Sequence
from html import escape

from torchsims.reporting._tables import Row, cell, columns

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c6370; --paper: #fff; --line: #d8dce2; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa2ae; --paper: #16181c; --line: #353a42; --tint: #1f2329; }
}
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
pre { background: var(--tint); padding: .6rem .8rem; border-radius: .4rem; overflow-x: auto; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .9rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
"""


def page(
    title: str,
    *,
    command: str,
    notes: Sequence[str],
    images: Mapping[str, bytes],
    tables: Mapping[str, Sequence[Row]],
    facts: Mapping[str, Mapping[str, object]],
) -> str:
    """Return the page: figures first, then the tables, then what is needed to do it again.

    Example:
        >>> text = page("Runs", command="torchsims", notes=["A < B."], images={}, tables={}, facts={})
        >>> "<p>A &lt; B.</p>" in text
        True
    """
    parts = [f"<h1>{escape(title)}</h1>", f"<pre>{escape(command)}</pre>"]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    parts += [_figure(name, data) for name, data in images.items()]
    parts += [f"<h2>{escape(name)}</h2>{_table(rows)}" for name, rows in tables.items()]
    for name, values in facts.items():
        rows = [{"": key, "value": value} for key, value in values.items()]
        parts.append(f"<h2>{escape(name)}</h2>{_table(rows)}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _figure(name: str, data: bytes) -> str:
    source = base64.b64encode(data).decode()
    label = escape(name)
    return f'<figure><img alt="{label}" src="data:image/png;base64,{source}"><figcaption>{label}</figcaption></figure>'


def _table(rows: Sequence[Row]) -> str:
    names = columns(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell(row.get(name)))}</td>" for name in names) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
