"""For tests of the command line; the fixture `call` runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., int]
"""Takes the words after `torchsims`, and returns the exit code."""


def results(folder: Path) -> dict[str, Any]:
    """Return what a command wrote down."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found
