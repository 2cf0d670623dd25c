"""Real data outside the repository, which tests use where it is available."""

import os
from pathlib import Path

import pytest


def _folder() -> Path:
    """Return the folder that TORCHSIMS_SHARED names, or `shared/data` beside the repository or one of its parents."""
    beside = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents[3:]]
    found = next((folder for folder in beside if folder.is_dir()), beside[0])
    return Path(os.environ.get("TORCHSIMS_SHARED") or found)


SHARED = _folder()


def shared(name: str) -> Path:
    """Return a file or folder of the shared data; skip the test if it is not there."""
    if not (SHARED / name).exists():
        pytest.skip(f"needs {name} in {SHARED}, or in the folder that TORCHSIMS_SHARED names")
    return SHARED / name
