"""Options of runs with the paper's model: processes, precision, and how two copies are evaluated."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import Call, results
from helpers.small_folders import write_scenes
from helpers.small_sam2 import write_checkpoint
from torchsims.training import Settings


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three photographs a split, and a checkpoint, ``sam2``."""
    root = tmp_path_factory.mktemp("rooms")
    for split in ("train", "val"):
        write_scenes(root, split, size=3)
    write_checkpoint(root / "sam2")
    return root


def five_steps(rooms: Path) -> list[str]:
    """Return options of runs of five steps with three images, at the rates of the paper and without dropout.

    Not of normals: their loss divides by the length of a prediction, which a random network puts next to zero.
    """
    model = f"sam2:encoder={rooms / 'sam2'}:rank=2:size=32:dropout=0"
    data = ["--data", "nyuv2", "--root", str(rooms), "--tasks", "seg,depth", "--preset", "paper"]
    return [*data, "--model", model, "--epochs", "5", "--batch", "3"]


# Processes.


def test_two_processes_are_one(rooms: Path, call: Call, tmp_path: Path) -> None:
    arguments = ["compare", *five_steps(rooms), "--methods", "sims,stl", "--jobs", "1", "--out"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "torchsims", *arguments, str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert call(*arguments, tmp_path / "one") == 0
    runs = sorted(path.name for path in (tmp_path / "one" / "runs").iterdir())
    assert len(runs) == 2
    for name in runs:
        one, two = (tmp_path / way / "runs" / name for way in ("one", "two"))
        assert [results(run)["settings"]["processes"] for run in (one, two)] == [1, 2]
        expected, found = (results(run)["run"]["history"]["losses"] for run in (one, two))
        for task, losses in expected.items():
            assert len(losses) == 5
            assert found[task] == pytest.approx(losses, rel=1e-5)
        with np.load(one / "samples.npz") as mine, np.load(two / "samples.npz") as theirs:
            for task in expected:
                array = f"prediction/{task}"
                np.testing.assert_allclose(theirs[array], mine[array], rtol=1e-5, atol=1e-5)


# Precision.


def test_autocast_is_near(rooms: Path, call: Call, tmp_path: Path) -> None:
    found = {}
    for precision in ("none", "bf16", "fp16"):
        out = tmp_path / precision
        assert call("train", *five_steps(rooms), "--autocast", precision, "--out", out) == 0
        found[precision] = results(out)["run"]["history"]["losses"]
    for precision in ("bf16", "fp16"):
        assert found[precision] != found["none"]
        for task, losses in found["none"].items():
            np.testing.assert_allclose(found[precision][task], losses, rtol=0.03)


# Two copies.


def test_evaluation_is_given_to_methods_that_have_it() -> None:
    def method(text: str, **settings: str) -> str:
        return Settings(method=text, evaluation="sequential", **settings).method  # type: ignore[arg-type]

    assert method("sims:tau=1") == "sims:evaluation=sequential:tau=1"
    assert method("foops") == "foops:evaluation=sequential"
    assert method("sims:evaluation=joint") == "sims:evaluation=joint"
    assert method("ew") == "ew"
    assert method("sims", data="nyuv2", preset="paper") == "sims:evaluation=sequential:prox=0:ratio=5:tau=5"
    assert Settings(method="sims").method == "sims"
    with pytest.raises(ValueError, match=r"There is no evaluation `sequentiel`\. Did you mean `sequential`\?"):
        Settings(evaluation="sequentiel")


def test_both_evaluations_find_the_same(rooms: Path, call: Call, tmp_path: Path) -> None:
    out, methods = tmp_path / "out", "sims,sims:evaluation=joint"
    arguments = ["--methods", methods, "--evaluation", "sequential", "--jobs", "1", "--out", out]
    assert call("compare", *five_steps(rooms), *arguments) == 0
    found = results(out)
    assert found["settings"]["method"] == [
        f"sims:evaluation={way}:prox=0:ratio=5:tau=5" for way in ("sequential", "joint")
    ]
    assert {"setting": "evaluation", "preset": "own", "here": "sequential"} in found["details"][
        "Changed from the preset"
    ]
    assert "--evaluation sequential" in found["command"]
    sequential, joint = (
        results(path)["run"]["history"]["losses"]
        for way in ("sequential", "joint")
        for path in (out / "runs").glob(f"*evaluation={way}*")
    )
    for task, losses in joint.items():
        assert sequential[task] == pytest.approx(losses, rel=1e-5)
