"""The example runs, and both of its tasks learn."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "lightning_module.py"


def test_the_example_trains_both_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    found = re.search(
        r"(\d+) steps; losses ([\d.]+) of length, (\d+) of weight\nbest .*\.ckpt", capsys.readouterr().out
    )
    assert found is not None
    assert int(found[1]) == 6 * 32 / 2
    # A constant prediction has a loss of about 0.43 and 1e6.
    assert float(found[2]) < 0.2
    assert int(found[3]) < 8e5
