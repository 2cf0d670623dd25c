"""Options of runs with the paper's model: processes, precision, and how two copies are evaluated."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from helpers.commands import Call, results
from helpers.processes import run_command_on_ranks
from helpers.small_folders import write_scenes
from helpers.small_sam2 import write_checkpoint
from torchsims.methods import Method
from torchsims.training import RunConfig, resolve


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
    run_command_on_ranks(tmp_path / "command", *arguments, tmp_path / "two")
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
    def evaluation(text: str, way: str) -> str:
        stepper = Method(text).build(nn.Linear(1, 1), ["a", "b"], lr=1e-3, evaluation=way)
        return str(getattr(stepper, "evaluation", "none"))

    assert evaluation("sims:tau=1", "sequential") == "sequential"
    assert evaluation("foops", "sequential") == "sequential"
    assert evaluation("sims:evaluation=joint", "sequential") == "joint"
    assert evaluation("sims", "auto") == "joint"
    assert evaluation("ew", "sequential") == "none"
    with pytest.raises(ValueError, match=r"There is no evaluation `sequentiel`\. Did you mean `sequential`\?"):
        resolve(RunConfig(evaluation="sequentiel"))


def test_both_evaluations_find_the_same(rooms: Path, call: Call, tmp_path: Path) -> None:
    out, methods = tmp_path / "out", "sims,sims:evaluation=joint"
    arguments = ["--methods", methods, "--evaluation", "sequential", "--jobs", "1", "--out", out]
    assert call("compare", *five_steps(rooms), *arguments) == 0
    found = results(out)
    assert found["settings"]["method"] == ["sims:prox=0:ratio=5:tau=5", "sims:evaluation=joint:prox=0:ratio=5:tau=5"]
    assert {"setting": "evaluation", "preset": "auto", "here": "sequential"} in found["details"][
        "Changed from the preset"
    ]
    assert "--evaluation sequential" in found["command"]
    sequential, joint = (
        results(path)["run"]["history"]["losses"]
        for pattern in ("*_sims_prox=*", "*_sims_evaluation=joint*")
        for path in (out / "runs").glob(pattern)
    )
    for task, losses in joint.items():
        assert sequential[task] == pytest.approx(losses, rel=1e-5)
