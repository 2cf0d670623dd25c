"""A run of `MultiTaskTrainer` is the plain loop on the same batches, for every method."""

from functools import partial
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from schedulefree import AdamWScheduleFree
from torch import Tensor, nn
from transformers import TrainerCallback

from helpers.methods import STEPPERS
from helpers.support import Data, make_net, parameters, sgd, task_losses
from helpers.trainers import COLUMNS, Order, Rows, closure, make_trainer, pick, plain_loop, steps_of
from torchsims import SIMS, Scalarized, TaskLosses
from torchsims.scalarizations import EW

SIZES = (4, 1, 3, 4, 2, 3)  # of the micro-batches of an epoch


@pytest.mark.parametrize("name", STEPPERS)
def test_a_run_is_the_plain_loop_on_the_same_batches(name: str, tmp_path: Path) -> None:
    make, order = STEPPERS[name], Order(SIZES)
    max_norm = 0.0 if "alternating" in name else 0.5
    trainer = make_trainer(tmp_path, make, {"max_grad_norm": max_norm}, data_collator=order)
    trainer.train()
    assert trainer.state.global_step == 6

    model = make_net()
    batches = [pick(Rows().data, rows) for rows in order.batches]
    reports, norms = plain_loop(make(model), steps_of(batches, per_epoch=6, accumulation=2), max_norm)
    atol = 1e-12
    torch.testing.assert_close(parameters(trainer.model), parameters(model), rtol=0, atol=atol)
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logs) == 6
    for log, report in zip(logs, reports, strict=True):
        assert {k: log[f"{k}_loss"] for k in report.losses} == pytest.approx(report.losses, rel=1e-6, abs=atol)
        weights = {k: w for k, w in report.weights.items() if not isnan(w)}  # GradDrop has none
        assert {k: log[f"{k}_weight"] for k in weights} == pytest.approx(weights, rel=1e-6, abs=atol)
    if max_norm:
        assert [log["grad_norm"] for log in logs] == pytest.approx([float(norm) for norm in norms], rel=1e-6)


def test_micro_batches_of_unequal_sizes_are_one_large_batch(tmp_path: Path) -> None:
    make, order = STEPPERS["SIMS"], Order(SIZES)
    trainer = make_trainer(tmp_path, make, {"max_grad_norm": 0.5}, data_collator=order)
    trainer.train()
    model, data = make_net(), Rows().data
    steps = [[pick(data, list(chain(*step)))] for step in steps_of(order.batches, per_epoch=6, accumulation=2)]
    plain_loop(make(model), steps, 0.5)
    torch.testing.assert_close(parameters(trainer.model), parameters(model), rtol=0, atol=1e-12)


def test_the_last_step_of_an_epoch_may_have_fewer_micro_batches(tmp_path: Path) -> None:
    make, order = STEPPERS["DWA"], Order()
    trainer = make_trainer(
        tmp_path, make, {"max_grad_norm": 0.0, "gradient_accumulation_steps": 4}, data_collator=order
    )
    trainer.train()
    assert [len(rows) for rows in order.batches[:6]] == [4, 4, 4, 4, 4, 2]
    assert trainer.state.global_step == 4
    model = make_net()
    batches = [pick(Rows().data, rows) for rows in order.batches]
    plain_loop(make(model), steps_of(batches, per_epoch=6, accumulation=4), epoch=2)
    torch.testing.assert_close(parameters(trainer.model), parameters(model), rtol=0, atol=1e-12)


def test_a_closure_may_pop_the_labels(tmp_path: Path) -> None:
    def popping(model: nn.Module, inputs: dict[str, Tensor]) -> TaskLosses:
        return task_losses(model, Data(*(inputs.pop(name) for name in COLUMNS)))

    ends = []
    for each in (closure, popping):
        trainer = make_trainer(tmp_path, STEPPERS["SIMS"], {"max_steps": 2}, task_losses=each)
        trainer.train()
        ends.append(parameters(trainer.model))
    assert torch.equal(*ends)


def test_a_schedule_of_the_arguments_scales_all_rates(tmp_path: Path) -> None:
    rates: list[list[float]] = []

    class Rates(TrainerCallback):  # type: ignore[misc]  # its types are not read
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            rates.append([group["lr"] for optimizer in trainer.method.optimizers for group in optimizer.param_groups])

    options = {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 4}
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], options, callbacks=[Rates()])
    trainer.train()
    expected = [[0.02 * factor, 0.1 * factor] for factor in (0.0, 0.25, 0.5, 0.75, 1.0, 1.0)]
    torch.testing.assert_close(torch.tensor(rates), torch.tensor(expected))
    assert [log["learning_rate"] for log in trainer.state.log_history[:-1]] == pytest.approx([r[0] for r in expected])


def test_logs_hold_means_over_the_steps_since_the_last(tmp_path: Path) -> None:
    each = make_trainer(tmp_path, STEPPERS["SIMS"])
    third = make_trainer(tmp_path, STEPPERS["SIMS"], {"logging_steps": 3})
    each.train()
    third.train()
    for name in ("loss", "a_loss", "c_weight"):
        values = [log[name] for log in each.state.log_history if name in log]
        means = [sum(values[:3]) / 3, sum(values[3:]) / 3]
        assert [log[name] for log in third.state.log_history if name in log] == pytest.approx(means)


def test_a_task_without_labels_does_not_disturb_the_log(tmp_path: Path) -> None:
    data = Rows()
    data.data.known[:, 1] = False
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], train_dataset=data)
    trainer.train()
    log = trainer.state.log_history[0]
    assert "b_loss" not in log
    assert log["b_weight"] == 0
    assert log["loss"] == pytest.approx((log["a_loss"] * log["c_loss"]) ** 0.5)


@pytest.mark.parametrize("logging", [2, 10])
def test_a_step_without_a_geometric_mean_is_logged_as_nan(logging: int, tmp_path: Path) -> None:
    def negative_at_first(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        losses = closure(model, inputs).mean()
        return {"a": losses["a"] - (100 if trainer.state.global_step == 0 else 0), "b": losses["b"]}

    trainer = make_trainer(
        tmp_path,
        partial(Scalarized, scalarization=EW(), outer=sgd(1e-6)),
        {"logging_steps": logging},
        task_losses=negative_at_first,
    )
    trainer.train()
    *logs, last = trainer.state.log_history
    assert [isnan(log["loss"]) for log in logs] == [True, False, False][: len(logs)]
    assert [log["a_loss"] < 0 for log in logs] == [True, False, False][: len(logs)]
    assert len(logs) == 6 // logging
    assert isnan(last["train_loss"])


def test_a_second_call_of_train_goes_on_with_the_same_method(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], {"max_steps": 2})
    trainer.train()
    first = trainer.method
    trainer.train()
    assert trainer.method is first
    assert first.state_dict()["steps"] == 4


def test_optimizers_that_know_modes_are_told_when_the_model_is_evaluated(tmp_path: Path) -> None:
    make = partial(SIMS, outer=lambda named: AdamWScheduleFree([p for _, p in named], lr=0.01), inner=sgd(0.1))
    trainer = make_trainer(tmp_path, make, {"max_steps": 2}, eval_dataset=Rows())
    trainer.train()
    trainer.evaluate()
    assert not any(group["train_mode"] for group in trainer.method.optimizers[0].param_groups)
