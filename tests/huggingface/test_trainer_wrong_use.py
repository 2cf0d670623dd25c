"""A wrong use of `MultiTaskTrainer` is one sentence, and what it uses of transformers is still there."""

import inspect
import re
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from transformers import Trainer

from helpers.methods import STEPPERS
from helpers.support import make_net, sgd
from helpers.trainers import arguments, closure, make_trainer
from torchsims import SIMS
from torchsims.huggingface import MultiTaskTrainer, _private
from torchsims.scalarizations import LogMerit


def test_the_private_parts_of_transformers_are_still_there() -> None:
    assert list(inspect.signature(Trainer._prepare_inputs).parameters) == ["self", "inputs"]
    assert list(inspect.signature(Trainer._clip_grad_norm).parameters) == ["self", "model"]
    assert "self._clip_grad_norm(model)" in inspect.getsource(Trainer._run_epoch)
    assert "observed_batch_size = find_batch_size(inputs)" in inspect.getsource(Trainer.evaluation_loop)
    assert f"`tests/huggingface/{Path(__file__).name}`" in str(_private.__doc__)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (STEPPERS["SIMS"](make_net()), "Parameter `method` should make a method .* Found an instance of `SIMS`"),
        ("sims", "Parameter `method` should make a method .* Found an instance of `str`"),
        (LogMerit(), "Parameter `method` should make a method .* Found an instance of `LogMerit`"),
        (LogMerit, "Parameter `method` should make a method .* Found the class `LogMerit`"),
        (partial(SGD, lr=0.1), "Parameter `method` should make a method .* Found the class `SGD`"),
        (partial(LogMerit()), "Parameter `method` should make a method .* Found an instance of `LogMerit`"),
    ],
)
def test_a_method_is_made_by_the_trainer(method: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=sentence):
        make_trainer(tmp_path, method)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda model: SGD(model.parameters(), lr=0.1), TypeError, "should return a method. Found `SGD`"),
        (lambda model: STEPPERS["SIMS"](make_net()), ValueError, "Found a method of another model"),
        (
            partial(SIMS, outer=sgd(), inner=sgd(0.1), order="alternating"),
            ValueError,
            "`max_grad_norm` should be 0 with `order = 'alternating'`.* Found `max_grad_norm = 1.0`",
        ),
    ],
)
def test_what_the_factory_makes_is_checked(make: Any, error: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=sentence):
        make_trainer(tmp_path, make).train()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"optimizers": (SGD([torch.ones(1)], lr=1.0), None)}, "Parameters `optimizers` and .* should be left out"),
        ({"optimizer_cls_and_kwargs": (SGD, {"lr": 1.0})}, "Parameters `optimizers` and .* should be left out"),
        ({"compute_loss_func": lambda *_, **__: None}, "Parameter `compute_loss_func` should be left out"),
    ],
)
def test_options_that_the_method_replaces_are_refused(given: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_trainer(tmp_path, STEPPERS["SIMS"], **given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fp16", True),
        ("fsdp", "full_shard"),
        ("deepspeed", {"zero_optimization": {}}),
        ("parallelism_config", object()),
        ("auto_find_batch_size", True),
        ("label_smoothing_factor", 0.1),
    ],
)
def test_arguments_that_a_method_cannot_follow_are_refused(name: str, value: Any, tmp_path: Path) -> None:
    args = arguments(tmp_path)
    setattr(args, name, value)
    with pytest.raises(ValueError, match=f"Argument `{name}` should be left out: .* Found `{name} = "):
        MultiTaskTrainer(make_net(), args, method=STEPPERS["SIMS"], task_losses=closure)


def test_several_devices_in_one_process_are_refused(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    args._n_gpu = 2
    with pytest.raises(ValueError, match=r"start the script with `torchrun --nproc-per-node`. Found 2 devices"):
        MultiTaskTrainer(make_net(), args, method=STEPPERS["SIMS"], task_losses=closure)


def test_processes_that_the_trainer_has_not_joined_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    args = arguments(tmp_path)
    assert args.world_size == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"set `use_cpu=True` .* Found 2 processes, of which it has joined 1"):
        MultiTaskTrainer(make_net(), args, method=STEPPERS["SIMS"], task_losses=closure)


@pytest.mark.parametrize("name", ["is_deepspeed_enabled", "is_fsdp_enabled"])
def test_a_launcher_that_shards_is_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    create = Trainer.create_accelerator_and_postprocess

    def launched(self: Trainer) -> None:
        create(self)
        setattr(self, name, True)

    monkeypatch.setattr(Trainer, "create_accelerator_and_postprocess", launched)
    with pytest.raises(ValueError, match="The launcher should leave out DeepSpeed and FSDP"):
        make_trainer(tmp_path, STEPPERS["SIMS"])


def test_the_method_is_there_once_training_has_started(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="The method should be used after `train`"):
        _ = make_trainer(tmp_path, STEPPERS["SIMS"]).method


def test_a_learning_rate_that_no_optimizer_has_is_a_warning(tmp_path: Path) -> None:
    make_trainer(tmp_path, STEPPERS["SIMS"], {"learning_rate": 0.02, "max_steps": 1}).train()
    with pytest.warns(UserWarning, match=r"`learning_rate = 0.03` is not used: .* \[0.02, 0.1\]"):
        make_trainer(tmp_path, STEPPERS["SIMS"], {"learning_rate": 0.03, "max_steps": 1}).train()


@pytest.mark.parametrize(
    ("name", "value", "rest"),
    [
        ("weight_decay", 0.25, r", whose `weight_decay` is \[0.0\]"),
        ("optim", "adafactor", ""),
        ("optim_args", "a=1", ""),
        ("optim_target_modules", ["head"], ""),
        ("adam_beta1", 0.5, ""),
        ("adam_beta2", 0.5, ""),
        ("adam_epsilon", 0.5, ""),
    ],
)
def test_an_argument_for_an_optimizer_is_a_warning(name: str, value: Any, rest: str, tmp_path: Path) -> None:
    sentence = (
        rf"Argument `{name} = {re.escape(repr(value))}` is not used: the optimizers are those of the method{rest}\.$"
    )
    with pytest.warns(UserWarning, match=sentence) as caught:
        make_trainer(tmp_path, STEPPERS["SIMS"], {name: value}).create_optimizer()
    assert len(caught) == 1


def test_a_weight_decay_that_an_optimizer_has_is_no_warning(tmp_path: Path) -> None:
    make = partial(SIMS, outer=partial(SGD, lr=0.1, weight_decay=0.25), inner=sgd(0.1))
    make_trainer(tmp_path, make, {"weight_decay": 0.25}).create_optimizer()


def test_a_column_that_the_trainer_removed_is_explained(tmp_path: Path) -> None:
    options = {"label_names": None, "remove_unused_columns": True}
    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], options, data_collator=None)
    with pytest.raises(KeyError) as caught:
        trainer.train()
    assert "name the labels in `TrainingArguments(label_names=[...])`" in caught.value.__notes__[0]


def test_a_failed_step_changes_nothing(tmp_path: Path) -> None:
    def zero(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {task: 0 * loss for task, loss in closure(model, inputs).mean().items()}

    trainer = make_trainer(tmp_path, STEPPERS["SIMS"], task_losses=zero)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    with pytest.raises(ValueError, match="task `a`"):
        trainer.train()
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("torchsims.huggingface")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'torchsims\[huggingface\]'"):
        import_module("torchsims.huggingface")
