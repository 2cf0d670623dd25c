"""Figures as SVG inside of a page: text as text, colours that follow the page by day and by night, few bytes."""

import io
import re
import warnings
from itertools import count
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

from torchsims.reporting._style import THEME

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
NUMBERS = ("d", "x", "y", "width", "height", "transform", "points")  # attributes that hold coordinates
FAMILY = re.compile(r"font-family:[^;]*;?\s*|(?<=px )'DejaVu.*?sans-serif")
PIXELS = 4 / 3  # of a point
SMALLEST = 0.8  # of its size, below which the letters of a figure could not be read on a phone
LARGEST = 300_000  # letters; a larger figure is smaller as an image


def figure_svg(figure: Figure, caption: str, prefix: str) -> str | None:
    """Return a figure as an element of a page; None if it would be very large.

    All of its identifiers begin with ``prefix``, so that a page can hold several figures.

    Example:
        >>> figure = Figure(figsize=(3.0, 2.0))
        >>> _ = figure.text(0.5, 0.5, "<a> & b")
        >>> figure_svg(figure, "Two letters", "a")[:53]
        '<svg viewBox="0 0 216 144" role="img" aria-label="Two'
    """
    target = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # names may have letters that the font does not have
        figure.savefig(target, format="svg", dpi=130, transparent=True, metadata={"Date": None, "Creator": None})
    found = ElementTree.fromstring(target.getvalue())
    width = figure.get_size_inches()[0] * 72 * PIXELS
    root = ElementTree.Element("svg", {"viewBox": _rounded(found.attrib["viewBox"]), "role": "img"})
    root.attrib |= {"aria-label": caption, "style": f"width: {width:.0f}px; min-width: {SMALLEST * width:.0f}px"}
    root.extend(child for child in found if child.tag != f"{SVG}metadata")
    _rename(root, prefix)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        element.attrib |= _attributes(element)
        for name in ("id", f"{XLINK}href", "style"):
            if element.attrib.get(name) == "" or name.startswith("{"):
                element.attrib.pop(name, None)
        if element.tag != "text" and not (element.text or "").strip():
            element.text = None
        if (element.tail or "").isspace():
            element.tail = None
    _prune(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return text if len(text) <= LARGEST else None


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Give what is referred to a short name of its own, and take the names of everything else."""
    uses = [value for element in root.iter() for name, value in element.attrib.items() if name != "style"]
    used = {name for value in uses for name in re.findall(r"^#(\w+)$|^url\(#(\w+)\)$", value) for name in name if name}
    names = dict(zip(sorted(used), map(f"{prefix}-{{}}".format, count()), strict=False))
    for element in root.iter():
        element.attrib["id"] = names.get(element.attrib.get("id", ""), "")
        if (target := element.attrib.get(f"{XLINK}href", "")).startswith("#"):
            element.attrib["href"] = f"#{names[target[1:]]}"
        if (clip := element.attrib.get("clip-path", "")).startswith("url(#"):
            element.attrib["clip-path"] = f"url(#{names[clip[5:-1]]})"


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    """Return the attributes that change: fewer digits, colours of the page, its font, images without white space."""
    changed = {name: _rounded(value) for name, value in element.attrib.items() if name in NUMBERS}
    if "style" in element.attrib:
        style = FAMILY.sub("", element.attrib["style"])
        changed["style"] = re.sub(r"#[0-9a-f]{6}", lambda match: THEME.get(match[0], match[0]), style)
    if element.tag == "image":
        changed["href"] = "".join(element.attrib[f"{XLINK}href"].split())
        changed["style"] = "image-rendering: pixelated"
    return changed


def _rounded(text: str) -> str:
    return " ".join(re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), text).split())


def _prune(element: ElementTree.Element) -> None:
    """Drop what draws nothing: the style sheet, patches without a colour, groups without a content."""
    for child in list(element):
        _prune(child)
        unseen = child.tag == "style" or child.attrib.get("style") == "fill: none"
        if unseen or (child.tag in ("g", "defs") and not len(child)):
            element.remove(child)
