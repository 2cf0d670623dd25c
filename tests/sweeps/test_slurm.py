"""Slurm: a comparison on a real cluster of one node."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from helpers.commands import Call, results
from helpers.one_node_slurm import missing, one_node_slurm
from helpers.processes import Command

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is there")


def test_a_comparison_is_stopped_and_resumed_and_finds_what_this_machine_finds(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = f"helpers.plug_in:Slow:until={tmp_path / 'fast'}"
    data = ["--data", "helpers.plug_in:Waves", "--model", model, "--epochs", "24", "--batch", "8"]
    words, out = ["compare", *data, "--methods", "ew,gls"], tmp_path / "out"
    with one_node_slurm() as config:
        monkeypatch.setenv("SLURM_CONF", str(config))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        environment = {name: os.environ[name] for name in ("SLURM_CONF", "PYTHONPATH")}
        on = [*words, "--on", "slurm:minutes=10", "--out", out]
        command = Command(tmp_path / "command", *on, environment=environment)
        while not list(out.glob("runs/*/checkpoint.pt")):  # the time limit of tests is its end
            time.sleep(0.1)
        os.kill(command.pid, signal.SIGINT)
        code, _, errors = command.wait()
        assert code == 130, errors
        (tmp_path / "fast").touch()
        assert call(*on, "--resume") == 0
    assert call(*words, "--jobs", "1", "--out", tmp_path / "here") == 0
    assert results(out)["rows"] == results(tmp_path / "here")["rows"]
