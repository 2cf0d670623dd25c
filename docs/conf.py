"""The documentation site: ``make docs`` builds it, warnings are errors, and nothing is downloaded."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import torchsims  # noqa: E402

project = "torchsims"
project_copyright = "the torchsims developers"
author = "The torchsims developers"
release = version = torchsims.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "generated_pages",
    "mathml",
    "references",
]
exclude_patterns = ["_generated"]  # pieces that pages include
default_role = "literal"  # docstrings write shapes and names of other packages in single backticks
nitpicky = True
nitpick_ignore = [("py:class", "Figure")]  # of matplotlib, imported for type checks only
suppress_warnings = ["misc.highlighting_failure"]  # a shortened error in a docstring is not Python

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # an override is documented where it is declared
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_ivar = True  # attributes are a list, not names of their own
napoleon_custom_sections = [("Reference", "returns_style")]
maximum_signature_line_length = 88
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]  # as on other sites that show Markdown

html_theme = "furo"
html_title = f"torchsims {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
pygments_style = "a11y-light"
pygments_dark_style = "monokai"
