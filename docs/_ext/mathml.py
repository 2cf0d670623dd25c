"""Formulas as MathML, written when the site is built: a browser shows them without a script or a download."""

from html import unescape
from typing import Any, Literal
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
PRIME = "\N{PRIME}"
LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
OPERATORS = {"∑", "∏", "max", "min", "sup", "inf"}  # have their limits below them in a formula of its own


def _mathml(tex: str, node: nodes.Element, display: Literal["inline", "block"]) -> str:
    try:
        root = convert_to_element(tex, display=display)
    except Exception as error:  # it has a class for every mistake
        LOGGER.warning("A formula should be TeX. Found `%s`: %r", tex, error, location=node)
        return ""
    for element in root.iter():
        element.text = unescape(element.text or "")
    for element in list(root.iter()):
        if element.tag in LIMITS and element[-1].text == PRIME:
            _lower_prime(element)
        elif display == "block" and element.tag in LIMITS and element[0].text in OPERATORS:
            element.tag = LIMITS[element.tag]
    return ElementTree.tostring(root, encoding="unicode")


def _lower_prime(element: ElementTree.Element) -> None:
    """Write a prime behind its letter: fonts raise the sign already."""
    letter = ElementTree.Element("mrow" if element.tag == "msup" else "msub")
    letter.extend(element[:-1])
    prime = ElementTree.Element("mo", lspace="0", rspace="0")
    prime.text = PRIME
    element.tag, element[:] = "mrow", [letter, prime]


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext(), node, "inline"))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    """Write the parts between wide spaces apart, so that a narrow screen can show one below the other."""
    parts = [_mathml(part, node, "block") for part in node.astext().split(r"\qquad")]
    translator.body.append(f'<div class="math">{"".join(f"<div>{part}</div>" for part in parts)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
