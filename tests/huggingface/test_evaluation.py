"""Evaluations of `MultiTaskTrainer`: exact losses by task, and predictions as usual."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import EvalPrediction

from helpers.methods import STEPPERS
from helpers.support import make_net, task_losses
from helpers.trainers import COLUMNS, Rows, closure, make_trainer
from torchsims import SIMS
from torchsims.huggingface import MultiTaskTrainer

EVALUATED = Rows(11, seed=1)  # batches of 8 and 3


def losses_by_hand(model: nn.Module) -> dict[str, float]:
    with torch.no_grad():
        losses = task_losses(model.eval(), EVALUATED.data).mean()
    return {f"eval_{task}_loss": float(loss) for task, loss in losses.items()}


def evaluator(folder: Path, **given: Any) -> MultiTaskTrainer:
    return make_trainer(folder, STEPPERS["SIMS"], {"max_steps": 2}, eval_dataset=EVALUATED, **given)


def test_the_loss_of_a_task_is_that_of_the_whole_set(tmp_path: Path) -> None:
    trainer = evaluator(tmp_path, model=make_net(dropout=0.5))
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    for metrics, model in ((before, make_net(dropout=0.5)), (after, trainer.model)):
        expected = losses_by_hand(model)
        assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-12)
        assert metrics["eval_loss"] == pytest.approx(np.prod(list(expected.values())) ** (1 / 3), rel=1e-12)
    assert before != after


def test_steps_are_in_training_mode_and_evaluations_are_not(tmp_path: Path) -> None:
    modes: set[tuple[bool, bool]] = set()

    def remember(model: nn.Module, inputs: dict[str, Tensor]) -> Any:
        modes.add((len(inputs["x"]) == 8, model.training))  # micro-batches have 4 rows
        return closure(model, inputs)

    options = {"max_steps": 3, "eval_strategy": "steps", "eval_steps": 1}
    make_trainer(tmp_path, STEPPERS["SIMS"], options, task_losses=remember, eval_dataset=Rows(8)).train()
    assert modes == {(True, False), (False, True)}


def test_losses_need_no_names_of_labels(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], {"label_names": []}, eval_dataset=EVALUATED)
    metrics, expected = trainer.evaluate(), losses_by_hand(make_net())
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_the_challenger_can_be_evaluated(tmp_path: Path) -> None:
    trainer = evaluator(tmp_path)
    trainer.train()
    assert isinstance(trainer.method, SIMS)
    with trainer.method.challenger() as challenger:
        metrics, expected = trainer.evaluate(), losses_by_hand(challenger)
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert expected != losses_by_hand(trainer.model)


def test_metrics_see_predictions_and_labels(tmp_path: Path) -> None:
    seen: list[EvalPrediction] = []

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        seen.append(prediction)
        return {"answer": 42.0}

    trainer = evaluator(tmp_path, compute_metrics=compute_metrics)
    assert trainer.evaluate()["eval_answer"] == 42
    with torch.no_grad():
        outputs = make_net()(EVALUATED.data.x)
    for predicted, expected in zip(seen[0].predictions, outputs.values(), strict=True):
        np.testing.assert_allclose(predicted, expected, rtol=1e-12)
    for label, name in zip(seen[0].label_ids, COLUMNS, strict=True):
        np.testing.assert_array_equal(label, getattr(EVALUATED.data, name))


@pytest.mark.parametrize("kind", ["tensor", "tuple"])
def test_a_model_may_return_a_tensor_or_a_tuple(kind: str, tmp_path: Path) -> None:
    class Two(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x) if kind == "tensor" else tuple(super().forward(x).unbind(1))

    def two_losses(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        out = model(inputs["x"])
        return torch.stack([(out if kind == "tensor" else out[0]).square().mean(), inputs["y"].square().mean()])

    torch.manual_seed(0)
    model = Two(5, 3).double()
    predicted = evaluator(tmp_path, model=model, task_losses=two_losses).predict(EVALUATED)
    parts = (predicted.predictions,) if kind == "tensor" else predicted.predictions
    expected = model(EVALUATED.data.x)
    for part, each in zip(parts, (expected,) if kind == "tensor" else expected, strict=True):
        np.testing.assert_allclose(part, each.detach(), rtol=1e-12)
    assert predicted.metrics.keys() >= {"test_loss", "test_0_loss", "test_1_loss"}


def test_several_evaluation_sets_have_losses_each(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], eval_dataset={"one": EVALUATED, "two": Rows(8, seed=2)})
    metrics = trainer.evaluate()
    assert metrics["eval_one_a_loss"] == pytest.approx(losses_by_hand(make_net())["eval_a_loss"], rel=1e-12)
    assert metrics["eval_two_a_loss"] != metrics["eval_one_a_loss"]


def test_a_task_without_labels_has_no_loss(tmp_path: Path) -> None:
    rows = Rows(8, seed=1)
    rows.data.known[:, 0] = False
    metrics = make_trainer(tmp_path, STEPPERS["SIMS"], eval_dataset=rows).evaluate()
    assert "eval_a_loss" not in metrics
    assert metrics["eval_loss"] == pytest.approx((metrics["eval_b_loss"] * metrics["eval_c_loss"]) ** 0.5)


def test_tasks_that_change_during_an_evaluation_are_one_sentence(tmp_path: Path) -> None:
    def changing(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        names = "ab" if len(inputs["x"]) == 8 else "ac"
        return {name: inputs["x"].square().mean() for name in names}

    with pytest.raises(ValueError, match=r"The closure should return the tasks \['a', 'b'\] in every call"):
        evaluator(tmp_path, task_losses=changing).evaluate()


def test_metrics_need_a_closure_that_calls_the_model(tmp_path: Path) -> None:
    def aside(model: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"a": model.stem(inputs["x"]).square().mean()}

    assert evaluator(tmp_path, task_losses=aside).evaluate()["eval_a_loss"] > 0
    with pytest.raises(ValueError, match="The closure should call the model it is given: `compute_metrics` needs"):
        evaluator(tmp_path, task_losses=aside, compute_metrics=lambda prediction: {}).evaluate()


def test_negative_losses_have_no_geometric_mean(tmp_path: Path) -> None:
    def negative(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"a": -inputs["x"].square().mean(), "b": closure(model, inputs).mean()["b"]}

    metrics = evaluator(tmp_path, task_losses=negative).evaluate()
    assert np.isnan(metrics["eval_loss"])
    assert metrics["eval_a_loss"] < 0
