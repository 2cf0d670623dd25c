"""Two agents of ``torchrun``, ranks that are killed in the middle of an epoch, and runs that end as if none were."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from helpers.agents import next_victim, run_agents
from helpers.commands import results
from helpers.ranks import run_ranks
from helpers.training_cases import DATA, Interrupt, assert_same_tensors, checkpoint, small
from torchsims import SIMS, cli
from torchsims.training import StoppedError, train
from torchsims.workloads.scenes import SceneWorkload

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ["--data", DATA, "--model", "hps:width=8", "--method", "sims", "--epochs", "2", "--batch", "4"]


def train_and_die(folder: Path, victims: Sequence[int]) -> None:
    """Run the command, and kill a rank in a forward pass of its third step."""
    losses, calls, die = SceneWorkload.losses, iter(range(1000)), next_victim(folder, victims)

    def deadly(self: Any, predictions: Any, batch: Any) -> Any:
        if next(calls) == 5:
            die()
        return losses(self, predictions, batch)

    SceneWorkload.losses = deadly  # type: ignore[method-assign]
    sys.argv = ["torchsims", "train", *QUICK, "--checkpoint-every", "1", "--resume", "--out", str(folder / "run")]
    cli.main()


def test_killed_ranks_change_nothing(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_agents(whole, train_and_die, whole, ())
    texts = run_agents(killed, train_and_die, killed, (1, 0))
    assert (killed / "killed1").exists()
    assert_same_tensors(checkpoint(whole / "run"), checkpoint(killed / "run"))
    assert results(whole / "run")["rows"] == results(killed / "run")["rows"]
    assert sum(text.count("| SIMS |") for text in texts) == 1  # one rank writes and prints


def run_example_and_die(script: str, folder: Path, victims: Sequence[int]) -> None:
    """Run a script of ``examples/``, and kill a rank before its eighth step."""
    step, calls, die = SIMS.step, iter(range(1000)), next_victim(folder, victims)

    def deadly(self: SIMS, *args: Any, **options: Any) -> Any:
        if next(calls) == 7:
            die()
        return step(self, *args, **options)

    SIMS.step = deadly  # type: ignore[assignment,method-assign]
    sys.argv = [script, str(folder / "run")]
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


def last_state(script: str, folder: Path) -> dict[str, Any]:
    """Return what a script of ``examples/`` saved after its last step."""
    path = folder / "run" / "checkpoint.pt"
    if script == "sharded_checkpoint.py":
        path = folder / "whole.pt"
        dcp_to_torch_save(folder / "run" / "000020", path)
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


@pytest.mark.parametrize("script", ["multi_node.py", "sharded_checkpoint.py"])
def test_a_loop_of_ones_own_goes_on_bit_for_bit(script: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_agents(whole, run_example_and_die, script, whole, ())
    run_agents(killed, run_example_and_die, script, killed, (0,))
    assert (killed / "killed0").exists()
    end = last_state(script, killed)
    assert end["step"] == 20
    assert_same_tensors(last_state(script, whole), end)


def resume_here(rank: int, folder: Path) -> str:
    try:
        train(small(), folder / str(rank))
    except ValueError as error:
        return str(error)
    return "trained"


def test_ranks_that_see_different_checkpoints_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        train(small(), tmp_path / "0", callbacks=[Interrupt(1)])
    content = (tmp_path / "0" / "checkpoint.pt").read_bytes()
    first, second = run_ranks({"resume": (resume_here, (tmp_path,))})["resume"]
    assert first.endswith("Found the checkpoint of step 2 in this one.")
    assert second.endswith("Found no checkpoint in this one.")
    assert (tmp_path / "0" / "checkpoint.pt").read_bytes() == content
