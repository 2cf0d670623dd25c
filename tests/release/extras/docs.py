"""The extra `docs`: a page in Markdown becomes a page of the site, in its theme."""

import tempfile
from pathlib import Path

from sphinx.application import Sphinx


def main() -> None:
    """Build a site of one page."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        (site / "conf.py").write_text('extensions = ["myst_parser"]\nhtml_theme = "furo"\n')
        (site / "index.md").write_text("# Title\n")
        out = site / "html"
        Sphinx(folder, folder, out, out, "html", status=None, warningiserror=True).build()
        assert "<h1>Title" in (out / "index.html").read_text()


if __name__ == "__main__":
    main()
