"""Two processes, started as `torchrun` does, train as one: with `MultiTaskTrainer` and in a loop on Accelerate."""

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from helpers.methods import STEPPERS
from helpers.ranks import run_ranks_after_imports
from helpers.support import Data, Net, make_net, parameters
from helpers.trainers import Order, Rows, Stop, make_trainer, pick, plain_loop, steps_of
from helpers.training_cases import assert_same_tensors

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import accelerate_loop

NAMES = ["SIMS", "FOOPS", "SIMS alternating", "FAMO", "UW", "EW on epoch-wise units", "MGDA", "GradNorm"]
SIZES = ((4, 1, 3), (2, 4, 1))  # of the micro-batches of an epoch, by rank
SAVED = {"save_strategy": "steps", "save_steps": 1}


def enter(rank: int) -> None:
    """Let Accelerate find what `torchrun` tells it."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")


def trained(rank: int, name: str, folder: Path) -> dict[str, Any]:
    enter(rank)
    order = Order(SIZES[rank])
    options = {"max_grad_norm": 0.0 if "alternating" in name else 0.5}
    trainer = make_trainer(folder, STEPPERS[name], options, data_collator=order)
    trainer.train()
    trainer.data_collator = Order()
    metrics = trainer.evaluate(Rows(16, seed=1))
    return {
        "wrapper": type(trainer.method.model).__name__,
        "batches": order.batches,
        "parameters": parameters(trainer.model),
        "logs": [log for log in trainer.state.log_history if "loss" in log],
        "metrics": {k: v for k, v in metrics.items() if "loss" in k},
    }


def resumed(rank: int, name: str, folder: Path) -> tuple[Any, Any]:
    enter(rank)

    def run(folder: Path, stop: int | None, model: Net) -> Any:
        callbacks = [] if stop is None else [Stop(stop)]
        trainer = make_trainer(folder, STEPPERS[name], SAVED, model=model, callbacks=callbacks)
        try:
            trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")))
        except KeyboardInterrupt:
            assert stop is not None
        return {"model": dict(trainer.model.state_dict()), "method": trainer.method.state_dict()}

    whole = run(folder / "whole", None, make_net(dropout=0.3))
    run(folder / "parts", 3, make_net(dropout=0.3))
    dist.barrier()  # the first process may still write the checkpoint
    return whole, run(folder / "parts", None, make_net(seed=1, dropout=0.3))


def looped(rank: int, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    enter(rank)
    whole = in_double(epochs=4)
    in_double(str(folder), epochs=2)
    dist.barrier()
    return whole, in_double(str(folder), epochs=4)


def in_double(*arguments: Any, **options: Any) -> dict[str, float]:
    torch.set_default_dtype(torch.float64)
    try:
        return accelerate_loop.main(*arguments, **options)
    finally:
        torch.set_default_dtype(torch.float32)


def accumulated(rank: int) -> None:
    from accelerate import Accelerator  # type: ignore[import-untyped]

    enter(rank)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = accelerator.prepare(nn.Linear(2, 2))
    method = STEPPERS["SIMS"](model)
    with accelerator.accumulate(model):
        method.step(lambda model, x: model(x).square().mean(0), torch.ones(1, 2))


@cache
def results(folder: Path) -> dict[str, list[Any]]:
    jobs: dict[str, Any] = {name: (trained, (name, folder)) for name in NAMES}
    jobs |= {f"{name} resumed": (resumed, (name, folder / name)) for name in ("SIMS", "EW on epoch-wise units")}
    jobs |= {"loop": (looped, (folder / "loop",)), "accumulated": (accumulated, ())}
    return run_ranks_after_imports(jobs)


@pytest.fixture
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    return results(tmp_path_factory.getbasetemp() / "processes")


def together(first: list[list[int]], second: list[list[int]]) -> list[list[Data]]:
    """Return the micro-batches of every step, over both processes."""
    data = Rows().data
    pairs = [steps_of(batches, per_epoch=3, accumulation=2) for batches in (first, second)]
    return [[pick(data, rows) for rows in (*one, *other)] for one, other in zip(*pairs, strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_are_the_plain_loop_on_one(name: str, ranks: dict[str, list[Any]]) -> None:
    first, second = ranks[name]
    assert first["wrapper"] == "DistributedDataParallel"
    assert torch.equal(first["parameters"], second["parameters"])
    model = make_net()
    max_norm = 0.0 if "alternating" in name else 0.5
    steps = together(first["batches"], second["batches"])
    reports, _ = plain_loop(STEPPERS[name](model), steps, max_norm, epoch=2)
    torch.testing.assert_close(first["parameters"], parameters(model), rtol=0, atol=1e-12)
    for logs in (first["logs"], second["logs"]):
        assert [log["a_loss"] for log in logs] == pytest.approx([r.losses["a"] for r in reports], rel=1e-6)


def test_two_processes_evaluate_as_one(ranks: dict[str, list[Any]], tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"])
    for each in ranks["SIMS"]:
        nn.utils.vector_to_parameters(each["parameters"], trainer.model.parameters())
        metrics = trainer.evaluate(Rows(16, seed=1))
        assert each["metrics"] == pytest.approx({name: metrics[name] for name in each["metrics"]}, rel=1e-9)


@pytest.mark.parametrize("name", ["SIMS", "EW on epoch-wise units"])
def test_two_processes_resume_bit_for_bit(name: str, ranks: dict[str, list[Any]]) -> None:
    for whole, parts in ranks[f"{name} resumed"]:
        assert_same_tensors(parts, whole)


def test_a_loop_on_accelerate_is_the_same_on_two_processes_and_when_it_is_resumed(ranks: dict[str, list[Any]]) -> None:
    expected = in_double(epochs=4)
    for each in ranks["loop"]:
        for losses in each:
            assert losses == pytest.approx(expected, rel=1e-9)


def test_a_step_inside_accumulate_is_one_sentence(ranks: dict[str, list[Any]]) -> None:
    for error in ranks["accumulated"]:
        assert "RuntimeError: A step should not be inside `no_sync` or `accelerator.accumulate`" in error
