"""Pages that are written when the site is built: one per method, per room, and per script of ``examples/``.

They are made of docstrings, of the tables of ``api.md``, and of ``methods.toml`` and ``recipes.toml``. A new method,
room or script has its page without a line here.
"""

import ast
import difflib
import importlib
import inspect
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

from torchsims.methods import METHODS, Method

DOCS = Path(__file__).parents[1]
EXAMPLES = DOCS.parent / "examples"
FOLDERS = ("_generated", "methods", "reference", "recipes")
LOGGER = logging.getLogger(__name__)


def public_rooms() -> list[ModuleType]:
    """Return the modules that ``api.md`` names, in its order."""
    names = dict.fromkeys(re.findall(r"`(torchsims(?:\.[a-z]+)*)`", (DOCS / "api.md").read_text(encoding="utf-8")))
    rooms = [importlib.import_module(name) for name in names if _is_module(name)]
    return [room for room in rooms if hasattr(room, "__all__")]


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Yield room, name and object of every public name, each object once: in the last room that has it."""
    homes = {id(value): room for room, _, value in names_by_room()}
    for room, name, value in names_by_room():
        if homes[id(value)] == room:
            yield room, name, value


def names_by_room() -> Iterator[tuple[str, str, Any]]:
    """Yield room, name and object of every public name in every room."""
    for room in public_rooms():
        for name in room.__all__:
            if not isinstance(value := getattr(room, name), ModuleType):
                yield room.__name__, name, value


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _write(path: str, text: str) -> None:
    """Write a page, unless it is there already: what did not change is not read again."""
    target = DOCS / path
    target.parent.mkdir(exist_ok=True)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def _api_rows() -> dict[str, dict[str, str]]:
    """Return the rows of the tables of ``api.md`` by name, as columns by their titles."""
    rows: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in (DOCS / "api.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
        elif name := re.fullmatch(r"`(\w+)`", cells[0]):
            rows.setdefault(name.group(1), dict(zip(header, cells, strict=False)))
    return rows


# Methods

STEPPERS = {
    "merit function": "a stepper of its own",
    "loss-level": ":class:`torchsims.Scalarized`, or a loop of your own: it is a module",
    "gradient-level": ":class:`torchsims.Aggregated`",
}


def _needs_extra(kind: type) -> bool:
    sources = (inspect.getsource(base) for base in kind.__mro__ if base.__module__.startswith("torchsims."))
    return any('needs("gradient")' in source for source in sources)


def _rst(text: str) -> str:
    """Return Markdown of a table's cell as reStructuredText."""
    return re.sub(r"`([^`]+)`", r"``\1``", text)


def write_methods() -> dict[int, str]:
    """Write a page per method; return the pages by the ids of the classes."""
    about = tomllib.loads((DOCS / "methods.toml").read_text(encoding="utf-8"))
    rows, pages, table = _api_rows(), {}, []
    homes = {id(value): f"{room}.{name}" for room, name, value in public_names()}
    for name in METHODS.names():
        method, kind = Method(name), METHODS.load(name)
        if id(kind) not in homes:  # a plug-in of this environment
            continue
        title, entry = kind.__name__, about.get(kind.__name__)
        if entry is None:
            LOGGER.warning(
                "docs/methods.toml should say of every method when to use it. Found nothing about `%s`.", title
            )
            entry = {"when": ""}
        row = rows.get(title, {})
        units = entry.get("units") or row.get("independent of units", "no")
        line = row.get("objective") or row.get("direction") or row.get("what it is", "")
        facts = {
            "Family": method.family,
            "Stepper": STEPPERS[method.family],
            "Passes per step": f"{method.passes} (forward + backward; m tasks)",
            "Independent of units": _rst(units),
            "By name": f"``--method {name}``" + (", with options: " + _options(method) if method.defaults else ""),
            "Install": "``pip install '.[gradient]'``" if _needs_extra(kind) else "no extra",
            "Paper": "; ".join(f"`{text} <{url}>`__" if url else text for text, url in entry.get("papers", ())),
        }
        _write(f"methods/{name}.rst", _method_page(kind, line, homes[id(kind)], facts, entry["when"]))
        pages[id(kind)] = f"methods/{name}"
        table.append((title, name, method.family, method.passes, units, line))
    _write_method_tables(table)
    return pages


def _options(method: Method) -> str:
    from torchsims.registry import option_text

    return ", ".join(f"``{key}={option_text(value)}``" for key, value in method.defaults.items())


def _method_page(kind: type, line: str, home: str, facts: dict[str, str], when: str) -> str:
    title = kind.__name__
    lines = [title, "=" * len(title), "", f"*{_plain(line)}*" if line else "", "", ".. list-table::"]
    lines += ["   :stub-columns: 1", "   :class: facts", ""]
    for key, value in facts.items():
        if value:
            lines += [f"   * - {key}", f"     - {value}"]
    lines += ["", "When to use it", "--------------", "", when.strip(), "", "Definition", "----------", ""]
    return "\n".join([*lines, f".. autoclass:: {home}", *_class_options(kind), ""])


def _plain(text: str) -> str:
    return text.replace("`", "").replace("*", "")


def _write_method_tables(table: list[tuple[str, ...]]) -> None:
    lines = []
    for family in dict.fromkeys(row[2] for row in table):
        lines += [f"## {family[0].upper()}{family[1:]} methods", ""]
        lines += ["| method | what it does | passes | independent of units |", "|---|---|---|---|"]
        lines += [
            f"| [{title}](methods/{name}.rst) | {line} | {passes} | {units} |"
            for title, name, of, passes, units, line in table
            if of == family
        ]
        lines += [
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *(f"methods/{row[1]}" for row in table if row[2] == family),
            "```",
            "",
        ]
    _write("_generated/methods.md", "\n".join(lines))


# Rooms

DIRECTIVES = ((inspect.isclass, "autoclass"), (inspect.isroutine, "autofunction"))


def write_reference(methods: dict[int, str]) -> None:
    """Write a page per room, with every public name that has no page of its own."""
    names = list(public_names())
    homes = {id(value): (home, name) for home, name, value in names}
    rooms = [room.__name__ for room in public_rooms() if any(home == room.__name__ for home, _, _ in names)]
    for room in rooms:
        lines = [f"``{room}``", "=" * (len(room) + 4), ""]
        if room != "torchsims":
            lines += [f".. automodule:: {room}", "   :no-members:", ""]
        linked = [methods[id(value)] for home, _, value in names if home == room and id(value) in methods]
        if linked:
            lines += ["Methods have pages of their own:", "", ", ".join(f":doc:`/{page}`" for page in linked) + ".", ""]
        moved = [homes[id(value)] for home, _, value in names_by_room() if home == room and homes[id(value)][0] != room]
        if moved:
            lines += ["Also here:", "", ", ".join(f":py:obj:`{home}.{name}`" for home, name in moved) + ".", ""]
        for home, name, value in names:
            if home == room and id(value) not in methods:
                directive = next((text for check, text in DIRECTIVES if check(value)), "autodata")
                options = _class_options(value) if directive == "autoclass" else []
                lines += [f".. {directive}:: {room}.{name}", *options, ""]
        _write(f"reference/{room}.rst", "\n".join(lines))
    index = [
        "Reference by module",
        "=" * 19,
        "",
        "Every public name with its docstring. :doc:`/api` lists them by purpose.",
        "",
    ]
    index += [".. toctree::", "   :maxdepth: 1", "", *(f"   {room}" for room in rooms), ""]
    _write("reference/index.rst", "\n".join(index))


def _class_options(kind: type) -> list[str]:
    """Return the options of a class: its members, and those of private bases, which have no page."""
    public = {id(value) for _, _, value in public_names()}
    elsewhere = [base for base in kind.__mro__[1:] if id(base) in public or not base.__module__.startswith("torchsims")]
    shown = dict.fromkeys(base.__name__ for other in elsewhere for base in other.__mro__)
    bases = ["   :show-inheritance:"] if any(id(base) in public for base in kind.__bases__) else []
    return ["   :members:", f"   :inherited-members: {', '.join(shown)}", *bases]


# Recipes


def write_recipes() -> None:
    """Write a page per script, the table of all recipes, and the difference between the two loops."""
    recipes = tomllib.loads((DOCS / "recipes.toml").read_text(encoding="utf-8"))["recipe"]
    scripts = {path.stem: path for path in sorted(EXAMPLES.glob("*.py"))}
    shown = {script for recipe in recipes for script in recipe.get("scripts", [])}
    recipes += [{"scripts": [name]} for name in scripts if name not in shown]
    lines, pages = ["| recipe | what it shows | script |", "|---|---|---|"], []
    for recipe in recipes:
        found = [name for name in recipe.get("scripts", []) if name in scripts]
        page = recipe.get("page", "")
        if page and not (DOCS / page.split("#")[0]).exists():
            page = ""
        if not page and not found:
            continue
        pages += [page.removesuffix(".md")] if recipe.get("in_navigation") and page else []
        title, links = recipe.get("title") or f"{found[0]}.py", []
        for name in found:
            _write(f"recipes/{name}.md", _script_page(scripts[name], f"{name}.py" if page else title))
            pages.append(f"recipes/{name}")
            links.append(f"[{name}.py](recipes/{name}.md)")
        if recipe.get("package"):
            _write("recipes/plugin.md", _plugin_page())
            pages.append("recipes/plugin")
            links.append("[a package](recipes/plugin.md)")
        summary = _docstring(scripts[found[0]])[0].removeprefix(f"{title}: ").rstrip(".") if found else ""
        line = recipe.get("line") or summary[0].upper() + summary[1:]
        lines.append(f"| [{title}]({page or f'recipes/{found[0]}.md'}) | {line} | {', '.join(links)} |")
    pages += _pages_nobody_lists(pages)
    lines += ["", "```{toctree}", ":hidden:", "", *dict.fromkeys(pages), "```", ""]
    _write("_generated/recipes.md", "\n".join(lines))
    _write("_generated/loop.diff", _difference(EXAMPLES / "loop_before.py", EXAMPLES / "loop_after.py"))


def _pages_nobody_lists(listed: list[str]) -> list[str]:
    """Return the pages of ``docs/`` that no list of pages names, so that each can be reached."""
    toctrees = " ".join(
        re.findall(r"```\{toctree\}(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    )
    known = {"index", *toctrees.split(), *listed}
    return [path.stem for path in sorted(DOCS.glob("*.md")) if path.stem not in known]


def _docstring(script: Path) -> tuple[str, str, int]:
    """Return the first line of a script's docstring, the rest of it, and the first line of code."""
    first = ast.parse(script.read_text(encoding="utf-8")).body[0]
    assert isinstance(first, ast.Expr), script
    assert isinstance(first.value, ast.Constant), script
    summary, _, rest = inspect.cleandoc(str(first.value.value)).partition("\n")
    return summary, rest, (first.end_lineno or 0) + 2


def _script_page(script: Path, title: str) -> str:
    summary, rest, start = _docstring(script)
    code = f"```{{literalinclude}} ../../examples/{script.name}\n:language: python\n:lines: {start}-\n```\n"
    return f"# {title}\n\n{summary}\n{rest}\n\n`examples/{script.name}`:\n\n{code}"


def _plugin_page() -> str:
    """Return the page of the example of a plug-in: what its folder holds."""
    text = (EXAMPLES / "plugin" / "README.md").read_text(encoding="utf-8").replace("../../docs/", "../")
    for file, language in (("torchsims_example/__init__.py", "python"), ("pyproject.toml", "toml")):
        text += f"\n## {file}\n\n```{{literalinclude}} ../../examples/plugin/{file}\n:language: {language}\n```\n"
    return text


def _difference(before: Path, after: Path) -> str:
    """Return all lines of two scripts, without docstrings, with - for those of the first alone and + for the second."""
    texts = [path.read_text(encoding="utf-8").splitlines()[_docstring(path)[2] - 1 :] for path in (before, after)]
    return "\n".join(difflib.unified_diff(*texts, lineterm="", n=1000)).split("@@\n", 1)[1] + "\n"


def _write_all(app: Sphinx, config: object) -> None:
    for folder in FOLDERS:  # what is no longer generated is gone
        shutil.rmtree(DOCS / folder, ignore_errors=True)
    write_reference(write_methods())
    write_recipes()


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("config-inited", _write_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
