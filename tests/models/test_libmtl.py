"""Dilated ResNets, MTAN and Cross-Stitch are those of LibMTL."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("LibMTL") is None, reason="LibMTL is not installed; `make` installs it")
def test_networks_are_those_of_libmtl_with_the_same_weights() -> None:
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "helpers.libmtl"], cwd=tests, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 6
    assert all(difference < 1e-5 for difference in found.values()), found
