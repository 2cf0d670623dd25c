"""References that Sphinx cannot resolve by itself: private homes of public names, inherited members, other packages."""

import importlib
import inspect
import re
from typing import Any

from docutils import nodes
from generated_pages import names_by_room, public_names
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

OUTSIDE = {
    r"\.\./CONTRIBUTING\.md": "contributing.md",
    r"\.\./CHANGELOG\.md": "changelog.md",
    r"\.\./bench/[A-Z]+\.md": "benchmarks.md",
    r"\.\./examples/(\w+)(?:\.py)?": r"recipes/\1.md",
}
"""Files beside the documentation, and the pages of the site that show them."""


def _homes() -> dict[str, str]:
    """Return the documented names of public classes and functions by where they are defined, and by their last word."""
    documented = {id(value): f"{room}.{name}" for room, name, value in public_names()}
    homes = {f"{room}.{name}": documented[id(value)] for room, name, value in names_by_room()}
    for room, name, value in public_names():
        full = f"{room}.{name}"
        if inspect.isclass(value) or inspect.isroutine(value):
            homes[f"{value.__module__}.{value.__qualname__}"] = full
            for base in value.__mro__ if inspect.isclass(value) else ():
                homes.setdefault(f"bases of {full}", "")
                homes[f"bases of {full}"] += f" {base.__module__}.{base.__qualname__}"
    return homes


def _candidates(node: pending_xref, homes: dict[str, str]) -> list[str]:
    """Return documented names that a reference may mean."""
    target, module, within = node["reftarget"], node.get("py:module"), node.get("py:class")
    found = [homes[target]] if target in homes else []
    found += [homes[f"{module}.{target}"]] if f"{module}.{target}" in homes else []
    if within and "." not in target:  # a member of a base class
        bases = homes.get(f"bases of {module}.{within}", "").split()
        found += [f"{homes[base]}.{target}" for base in bases if base in homes]
    if "." not in target:
        found += [home for home in homes.values() if home.rpartition(".")[2] == target]
    return found


def _exists(target: str, module: str | None, within: str | None) -> bool:
    """Return whether a name means something that can be imported; quoted words and parts of types do."""
    if target.startswith(("'", '"')) or "[" in target:
        return True
    for name in (target, f"{module}.{target}", f"{module}.{within}.{target}", f"builtins.{target}", f"typing.{target}"):
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                value: Any = importlib.import_module(".".join(parts[:cut]))
                for part in parts[cut:]:
                    value = getattr(value, part)
            except (ImportError, AttributeError, ValueError):
                continue
            return True
    return _is_listed_attribute(target, module, within)


def _is_listed_attribute(target: str, module: str | None, within: str | None) -> bool:
    """Return whether the docstring of the class lists an attribute."""
    kind = getattr(importlib.import_module(module), within, None) if module and within else None
    return re.search(rf"^\s+{re.escape(target)}: ", inspect.getdoc(kind) or "", re.MULTILINE) is not None


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element) -> nodes.Node | None:
    """Link to the documented name; show a name of elsewhere as text; leave what is unknown to be a warning."""
    if node["refdomain"] != "py":
        return None
    domain = env.get_domain("py")
    for name in _candidates(node, env.app.public_homes):  # type: ignore[attr-defined]
        if name in domain.objects:  # type: ignore[attr-defined]
            kind = domain.objects[name].objtype  # type: ignore[attr-defined]
            role = domain.role_for_objtype(kind) or "obj"
            return domain.resolve_xref(env, node["refdoc"], app.builder, role, name, node, text)
    return text if _exists(node["reftarget"], node.get("py:module"), node.get("py:class")) else None


def _keep_colons(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Let the docstring of an attribute hold a colon: napoleon has taken what stands before it for a type."""
    if lines and lines[-1].startswith(":type: "):
        lines[0] = f"{lines.pop().removeprefix(':type: ')}: {lines[0]}"


def _redirect(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to files beside the documentation lead to pages of the site, and keep numbers in one piece."""
    for file, target in OUTSIDE.items():
        source[0] = re.sub(rf"\]\({file}\)", f"]({target})", source[0])
    source[0] = source[0].replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")  # a narrow column keeps it on a line


def _shorten_defaults(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write a default that a function makes as `...`: Sphinx cannot read `<factory>`."""
    return signature and signature.replace("<factory>", "..."), returns


def _link_names(app: Sphinx, document: nodes.document) -> None:
    """Link the names in the tables of ``api.md`` to their docstrings; a name of two rooms to that of its section."""
    if app.env.current_document.docname != "api":
        return
    homes: dict[str, list[str]] = {}
    for room, name, _ in names_by_room():
        homes.setdefault(name, []).append(f"{room}.{name}")
    for literal in list(document.findall(nodes.literal)):
        section = literal.parent
        while not isinstance(section, nodes.section):
            section = section.parent
        found = homes.get(literal.astext(), [])
        own = [home for home in found if home.rpartition(".")[0] in section[0].astext()]
        if len(own or found) == 1:
            target = (own or found)[0]
            reference = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True
            )
            literal.replace_self(reference)
            reference += literal


def _fix_source_links(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Let the source of a module that has a page link to it: Sphinx takes the name under which it met the module first.

    Which one that is depends on the order in which processes read the pages.
    """
    modules = getattr(env, "_viewcode_modules", {})
    for name, entry in modules.items():
        if entry and f"reference/{name}" in entry[2].values():
            modules[name] = (*entry[:3], name)
    return []


def _skip_requests(app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that scikit-learn makes for metadata routing: their docstrings refer to its own site."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _homes_once(app: Sphinx) -> None:
    app.public_homes = _homes()  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the events."""
    app.connect("builder-inited", _homes_once)
    app.connect("missing-reference", _resolve)
    app.connect("source-read", _redirect)
    app.connect("doctree-read", _link_names)
    app.connect("env-updated", _fix_source_links)
    app.connect("autodoc-skip-member", _skip_requests)
    app.connect("autodoc-process-signature", _shorten_defaults)
    app.connect("autodoc-process-docstring", _keep_colons, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
