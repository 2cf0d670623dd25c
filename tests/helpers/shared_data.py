"""Real data beside the repository, for the tests that can do without it."""

import os
from pathlib import Path

import pytest

_SHARED = os.environ.get("TORCHSIMS_SHARED")
SHARED = Path(_SHARED) if _SHARED else Path(__file__).parents[3] / "shared" / "data"


def shared(name: str) -> Path:
    """Return a file or folder of the shared data; skip the test if it is not there."""
    if not (SHARED / name).exists():
        pytest.skip(f"needs {name} in {SHARED}, or in the folder that TORCHSIMS_SHARED names")
    return SHARED / name
