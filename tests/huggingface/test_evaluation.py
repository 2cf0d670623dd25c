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


def means(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {"a": model(inputs["x"])["a"].square().mean(), "b": inputs["y"].abs().mean()}


@pytest.mark.parametrize("size", [4, 8, 11])
def test_plain_means_are_those_of_the_whole_set_whatever_the_batch_size(size: int, tmp_path: Path) -> None:
    options = {"per_device_eval_batch_size": size}
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], options, task_losses=means, eval_dataset=EVALUATED)
    metrics, data = trainer.evaluate(), EVALUATED.data
    for task, loss in means(make_net().eval(), {"x": data.x, "y": data.y}).items():
        assert metrics[f"eval_{task}_loss"] == pytest.approx(float(loss.detach()), rel=1e-12)


def test_the_size_of_a_batch_is_that_of_its_first_tensor_with_rows(tmp_path: Path) -> None:
    def collate(rows: list[Any]) -> dict[str, Any]:
        return {"text": ["a"] * len(rows), "scale": torch.tensor(1.0), "x": torch.stack([row["x"] for row in rows])}

    def squares(model: nn.Module, inputs: dict[str, Any]) -> dict[str, Tensor]:
        return {"a": inputs["x"].square().mean()}

    options: dict[str, Any] = {"label_names": []}
    given = {"task_losses": squares, "data_collator": collate}
    metrics = make_trainer(tmp_path, STEPPERS["SIMS"], options, eval_dataset=EVALUATED, **given).evaluate()
    assert metrics["eval_a_loss"] == pytest.approx(float(EVALUATED.data.x.square().mean()), rel=1e-12)


def negative(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {"a": -inputs["x"].square().mean(), "b": closure(model, inputs).mean()["b"]}


def test_negative_losses_have_no_geometric_mean(tmp_path: Path) -> None:
    metrics = evaluator(tmp_path, task_losses=negative).evaluate()
    assert np.isnan(metrics["eval_loss"])
    assert metrics["eval_a_loss"] < 0


@pytest.mark.parametrize(
    ("options", "evaluated"),
    [
        ({"load_best_model_at_end": True}, EVALUATED),
        ({"metric_for_best_model": "eval_loss", "save_strategy": "best"}, EVALUATED),
        ({"metric_for_best_model": "one_loss", "load_best_model_at_end": True}, {"one": EVALUATED, "two": EVALUATED}),
    ],
)
def test_no_checkpoint_is_best_by_a_mean_that_negative_losses_do_not_have(
    options: dict[str, Any], evaluated: Any, tmp_path: Path
) -> None:
    trainer = below_zero(tmp_path, options, evaluated)
    prefix = "eval_one" if isinstance(evaluated, dict) else "eval"
    sentence = (
        f"`metric_for_best_model` should be another metric than `{prefix}_loss`, such as `{prefix}_a_loss`: .* Found"
    )
    with pytest.raises(ValueError, match=sentence):
        trainer.train()


def test_the_loss_of_a_task_can_choose_the_best_checkpoint(tmp_path: Path) -> None:
    trainer = below_zero(tmp_path, {"metric_for_best_model": "a_loss", "load_best_model_at_end": True}, EVALUATED)
    trainer.train()
    assert trainer.state.best_metric < 0
    assert np.isnan(trainer.evaluate()["eval_loss"])


def below_zero(folder: Path, options: dict[str, Any], evaluated: Any) -> MultiTaskTrainer:
    """Return a trainer whose evaluations find a negative loss."""
    every = {"max_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}

    def below(model: nn.Module, inputs: dict[str, Tensor]) -> Any:
        return closure(model, inputs) if model.training else negative(model, inputs)

    return make_trainer(folder, STEPPERS["SIMS"], every | options, task_losses=below, eval_dataset=evaluated)
