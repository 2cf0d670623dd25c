"""A run of `MultiTaskTrainer` that is stopped and resumed is the run that was never stopped, bit for bit."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from helpers.methods import STEPPERS
from helpers.support import make_net
from helpers.trainers import Rows, Stop, closure, make_trainer
from helpers.training_cases import assert_same_tensors
from torchsims.huggingface import MultiTaskTrainer

# Two copies, statistics of epochs and of steps, parameters and random numbers of a method's own.
NAMES = [
    "SIMS",
    "SIMS joint",
    "DWA",
    "STCH-normalized",
    "FAMO",
    "RLW",
    "UW",
    "GradNorm",
    "DBMTL",
    "EW on epoch-wise units",
]
NOISY = partial(make_net, dropout=0.3, batch_norm=True)


def checkpoint(folder: Path, step: int) -> dict[str, Any]:
    """Return all numbers of a checkpoint; its files need no trust in who wrote them."""
    path = folder / f"checkpoint-{step}"
    return {
        "model": load_file(path / "model.safetensors"),
        "method": torch.load(path / "optimizer.pt", weights_only=True),
        "schedule": torch.load(path / "scheduler.pt", weights_only=True),
    }


def losses(trainer: MultiTaskTrainer) -> list[dict[str, float]]:
    return [{k: v for k, v in log.items() if "runtime" not in k and "second" not in k} for log in history(trainer)]


def history(trainer: MultiTaskTrainer) -> list[dict[str, float]]:
    return [log for log in trainer.state.log_history if "loss" in log or "eval_loss" in log]


def run(folder: Path, name: str, stop: int | None, model: nn.Module) -> MultiTaskTrainer:
    """Train from the last checkpoint, if there is one, to the end, or to a stop."""
    options = {"save_strategy": "steps", "save_steps": 1, "eval_strategy": "steps", "eval_steps": 3}
    callbacks = [] if stop is None else [Stop(stop)]
    trainer = make_trainer(
        folder, STEPPERS[name], options, model=model, callbacks=callbacks, eval_dataset=Rows(8, seed=1)
    )
    if stop is None:
        trainer.train(resume_from_checkpoint=folder.exists() and any(folder.glob("checkpoint-*")))
    else:
        with pytest.raises(KeyboardInterrupt):
            trainer.train()
    return trainer


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", name, None, NOISY())
    assert len(losses(whole)) == 8
    for stop in (2, 3):  # in the middle of an epoch, and after the last step of one
        parts = tmp_path / str(stop)
        run(parts, name, stop, NOISY())
        resumed = run(parts, name, None, NOISY(seed=1))
        assert_same_tensors(checkpoint(parts, 6), checkpoint(tmp_path / "whole", 6))
        assert_same_tensors(resumed.method.state_dict(), whole.method.state_dict())
        assert losses(resumed) == losses(whole)


def test_a_run_can_be_extended_from_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """An epoch that a run does not complete is not closed: the mean losses that DWA looks at are those of all of it."""
    options = {"save_strategy": "epoch", "lr_scheduler_type": "constant", "num_train_epochs": 4}
    make = STEPPERS["DWA"]
    whole = make_trainer(tmp_path / "whole", make, options)
    whole.train()
    make_trainer(tmp_path / "parts", make, {**options, "max_steps": 5}).train()
    resumed = make_trainer(tmp_path / "parts", make, options, model=make_net(seed=1))
    resumed.train(resume_from_checkpoint=str(tmp_path / "parts" / "checkpoint-5"))
    assert_same_tensors(checkpoint(tmp_path / "parts", 12), checkpoint(tmp_path / "whole", 12))


def test_a_checkpoint_without_the_method_is_one_sentence(tmp_path: Path) -> None:
    make_trainer(
        tmp_path, STEPPERS["SIMS"], {"max_steps": 1, "save_strategy": "steps", "save_only_model": True}
    ).train()
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"])
    with pytest.raises(ValueError, match=r"The checkpoint should hold the state of the method, in `optimizer.pt`"):
        trainer.train(resume_from_checkpoint=True)


def test_a_checkpoint_of_another_trainer_is_one_sentence(tmp_path: Path) -> None:
    make_trainer(tmp_path, STEPPERS["SIMS"], {"max_steps": 1, "save_strategy": "steps"}).train()
    file = tmp_path / "checkpoint-1" / "optimizer.pt"
    torch.save(torch.load(file, weights_only=True)["method"]["outer"], file)
    with pytest.raises(ValueError, match="The checkpoint should be one of a `MultiTaskTrainer`"):
        make_trainer(tmp_path, STEPPERS["SIMS"]).train(resume_from_checkpoint=True)


def test_a_checkpoint_of_another_method_is_one_sentence(tmp_path: Path) -> None:
    make_trainer(tmp_path, STEPPERS["SIMS"], {"max_steps": 1, "save_strategy": "steps"}).train()
    with pytest.raises(ValueError, match=r"The state should be one of `Scalarized`. Found one of `SIMS`"):
        make_trainer(tmp_path, STEPPERS["EW"]).train(resume_from_checkpoint=True)


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_the_best_model_is_kept_whatever_the_units(unit: float, tmp_path: Path) -> None:
    """Products of the losses by epoch are 4, 2, 8 and 6; their sums are least after the third for small units."""
    evaluations = iter([(4.0, 1.0), (2.0, 1.0), (1.0, 8.0), (3.0, 2.0)])

    def one_batch_each(model: nn.Module, inputs: dict[str, Tensor]) -> Any:
        if model.training:
            return closure(model, inputs)
        a, b = next(evaluations)
        return {"a": torch.tensor(a), "b": torch.tensor(unit * b)}

    options = {
        "num_train_epochs": 4,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 1,
        "load_best_model_at_end": True,
    }
    trainer = make_trainer(
        tmp_path, STEPPERS["SIMS"], options, task_losses=one_batch_each, eval_dataset=Rows(8, seed=1)
    )
    trainer.train()
    assert trainer.state.best_metric == pytest.approx((2 * unit) ** 0.5)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-6"]
    assert_same_tensors(dict(trainer.model.state_dict()), checkpoint(tmp_path, 6)["model"])
