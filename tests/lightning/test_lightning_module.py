"""A run of Lightning's trainer is the loop by hand, and nothing of the trainer is lost."""

import copy
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, ReduceLROnPlateau

from helpers.lightning_modules import BATCHES, QUIET, Batches, Module, Validated, fit, plain_loop
from helpers.methods import STEPPERS, tolerance, two_copies
from helpers.support import Data, make_net, make_sims, mean_losses, parameters, sgd, task_losses
from torchsims import FOOPS, SIMS, Scalarized, Stepper, TaskLosses
from torchsims.lightning import MultiTaskModule
from torchsims.scalarizations import EW

STATE = Path("last.ckpt")


def difference(module: nn.Module, other: nn.Module) -> float:
    return (parameters(module) - parameters(other)).abs().max().item()


# The same steps


@pytest.mark.parametrize("name", STEPPERS)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_run_is_the_loop_by_hand_with_and_without_accumulation(name: str, parts: int) -> None:
    make = STEPPERS[name]
    module = Module(make)
    trainer = fit(module, accumulate_grad_batches=parts)
    assert trainer.global_step == {1: 14, 3: 6}[parts]  # the last group of an epoch has one micro-batch
    assert difference(module, plain_loop(make, parts=parts)) < tolerance(name)


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint"])
def test_dropout_batch_norm_and_frozen_parameters_are_as_by_hand(name: str) -> None:
    options: dict[str, Any] = {"dropout": 0.3, "batch_norm": True, "frozen": True}
    module = Module(STEPPERS[name], **options)
    fit(module, accumulate_grad_batches=2, batches=BATCHES[:4])
    net = plain_loop(STEPPERS[name], parts=2, batches=BATCHES[:4], **options)
    assert all(
        torch.equal(a, b) for a, b in zip(module.net.state_dict().values(), net.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", ["SIMS", "EW", "MGDA"])
def test_gradients_are_clipped_by_the_norm_of_each_copy(name: str) -> None:
    module = Module(STEPPERS[name])
    fit(module, gradient_clip_val=0.05)
    by_hand = plain_loop(STEPPERS[name], after_backward=lambda method: method.clip_grad_norm_(0.05))
    assert difference(module, by_hand) < 1e-12
    assert difference(module, plain_loop(STEPPERS[name])) > 1e-3


def test_gradients_are_clipped_by_value_in_both_copies() -> None:
    def clip(method: Stepper[Any]) -> None:
        for optimizer in method.optimizers:
            nn.utils.clip_grad_value_(optimizer.param_groups[0]["params"], 0.01)

    module = Module(make_sims)
    fit(module, gradient_clip_val=0.01, gradient_clip_algorithm="value")
    assert difference(module, plain_loop(make_sims, after_backward=clip)) < 1e-12


@pytest.mark.parametrize("algorithm", ["norm", "value"])
def test_alternating_steps_cannot_be_clipped(algorithm: str) -> None:
    with pytest.raises(RuntimeError, match="`order` should be 'simultaneous' to clip"):
        fit(Module(STEPPERS["SIMS alternating"]), gradient_clip_val=0.1, gradient_clip_algorithm=algorithm)


# Precision


def test_bf16_mixed_is_autocast_of_the_loop_by_hand() -> None:
    module = Module(make_sims, dtype=torch.float32)
    batches = [Data(each.x.float(), each.y.float(), each.known) for each in BATCHES]
    fit(module, precision="bf16-mixed", batches=batches)

    def losses(model: nn.Module, batch: Data) -> TaskLosses:
        with torch.autocast("cpu", torch.bfloat16):
            return task_losses(model, batch)

    net = make_net(dtype=torch.float32)
    method = make_sims(net)
    for batch in 2 * batches:
        method.step(losses, batch)
    assert difference(module, net) < 1e-6
    fit(full := Module(make_sims, dtype=torch.float32), batches=batches)
    assert difference(full, net) > 1e-5


@pytest.mark.parametrize("name", ["SIMS", "EW", "MGDA"])
def test_a_gradient_scaler_skips_what_overflows_and_is_unscaled_once(name: str) -> None:
    """The CPU has float16 too, but `Trainer(precision="16-mixed")` uses bfloat16 there: so the plug-in is given."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)
    module = Module(STEPPERS[name], dtype=torch.float32)
    batches = [Data(each.x.float(), each.y.float(), each.known) for each in 2 * BATCHES]
    fit(module, plugins=MixedPrecision("16-mixed", "cpu", scaler), batches=batches, gradient_clip_val=0.5)

    net, other = make_net(dtype=torch.float32), torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)
    method, skipped = STEPPERS[name](net), 0
    for batch in 2 * batches:
        with torch.autocast("cpu", torch.float16):
            report = method.backward(task_losses, batch, scaler=other)
        method.clip_grad_norm_(0.5)
        method.update()
        other.update()
        skipped += report.skipped is not None
    assert 0 < skipped < len(batches)
    assert scaler.get_scale() == other.get_scale()
    assert difference(module, net) < 1e-6


# Schedulers


def test_one_scheduler_changes_the_rates_of_both_copies() -> None:
    def per_step(optimizer: Any) -> Any:
        return [optimizer], [{"scheduler": ExponentialLR(optimizer, 0.9), "interval": "step"}]

    def decay(method: Stepper[Any]) -> None:
        for optimizer in method.optimizers:
            optimizer.param_groups[0]["lr"] *= 0.9

    module = Module(make_sims, per_step)
    fit(module)
    assert [each.param_groups[0]["lr"] for each in module.method.optimizers] == pytest.approx(
        [0.02 * 0.9**14, 0.1 * 0.9**14]
    )
    assert difference(module, plain_loop(make_sims, after_step=decay)) < 1e-12


def test_a_scheduler_per_epoch_can_treat_the_copies_differently() -> None:
    module = Module(
        make_sims, lambda optimizer: ([optimizer], [LambdaLR(optimizer, [lambda e: 1.0, lambda e: 0.5**e])])
    )
    fit(module)
    assert [each.param_groups[0]["lr"] for each in module.method.optimizers] == [0.02, 0.1 / 4]


def test_a_plateau_reduces_both_rates() -> None:
    def plateau(optimizer: Any) -> Any:
        scheduler = ReduceLROnPlateau(optimizer, "max", factor=0.1, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/a"}}

    module = Validated(make_sims, plateau)
    trainer = Trainer(accelerator="cpu", max_epochs=3, **QUIET)
    trainer.fit(module, Batches(BATCHES), Batches(BATCHES[:2]))  # the loss falls, so that "max" never improves
    assert [each.param_groups[0]["lr"] for each in module.method.optimizers] == pytest.approx([0.0002, 0.001])


# Callbacks and logs


class Outputs(Callback):
    """Keeps what every batch returned."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.losses.append(float(outputs["loss"]))


def test_checkpoints_are_written_by_steps_and_the_best_one_is_known(tmp_path: Path) -> None:
    by_step = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=4, save_top_k=-1)
    best = ModelCheckpoint(tmp_path / "best", "{epoch}-{val/a:.3f}", monitor="val/a", auto_insert_metric_name=False)
    weighted = ModelCheckpoint(tmp_path / "train", monitor="train/a/loss", every_n_train_steps=1)
    callbacks: list[Callback] = [by_step, best, weighted]
    module = Validated(make_sims)
    trainer = Trainer(accelerator="cpu", max_epochs=2, callbacks=callbacks, **{**QUIET, "enable_checkpointing": True})
    trainer.fit(module, Batches(BATCHES), Batches(BATCHES[:2]))
    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == [f"step={step}.ckpt" for step in (12, 4, 8)]
    assert Path(best.best_model_path).exists()
    assert best.best_model_score == trainer.callback_metrics["val/a"]
    assert Path(weighted.best_model_path).exists()


def test_training_stops_early_on_a_loss_of_training() -> None:
    stop = EarlyStopping("train/b/loss", patience=1, mode="max", check_on_train_epoch_end=True)
    trainer = fit(Module(make_sims), max_epochs=30, callbacks=[stop])
    assert trainer.current_epoch < 30


def test_losses_weights_and_rates_are_logged_by_task(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    outputs = Outputs()
    module = Module(make_sims)
    callbacks = [LearningRateMonitor(), outputs]
    trainer = fit(module, logger=logger, log_every_n_steps=1, callbacks=callbacks, accumulate_grad_batches=2)
    lines = (Path(logger.log_dir) / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    rows = [row for row in rows if row["train/a/loss"]]
    assert len(rows) == trainer.global_step == 8

    net = make_net()
    method = make_sims(net)
    for index, row in enumerate(rows):
        start = 2 * (index % 4)
        report = method.step(task_losses, *BATCHES[start : min(start + 2, 7)])
        logged = {name: float(value) for name, value in row.items() if name.startswith("train/")}
        expected = {
            **{f"train/{task}/loss": loss for task, loss in report.losses.items()},
            **{f"train/{task}/weight": weight for task, weight in report.weights.items()},
            **{f"train/{task}/challenger": loss for task, loss in report.challenger.items()},
            "train/merit": report.merit,
        }
        assert logged == pytest.approx(expected, rel=1e-5, nan_ok=True)
        weighted = sum(w * loss for w, loss in zip(report.weights.values(), report.losses.values(), strict=True) if w)
        assert outputs.losses[7 * (index // 4) + min(start + 1, 6)] == pytest.approx(weighted, rel=1e-5)
    assert {"lr-MethodOptimizer/pg1", "lr-MethodOptimizer/pg2"} <= set(names)


@pytest.mark.parametrize(("name", "logged"), [("EW", "train/objective"), ("MGDA", "train/a/weight")])
def test_one_copy_methods_log_what_they_report(name: str, logged: str) -> None:
    trainer = fit(Module(STEPPERS[name]), max_epochs=1)
    assert logged in trainer.callback_metrics
    assert not any("challenger" in key or "merit" in key for key in trainer.callback_metrics)


class Oddities(MultiTaskModule):
    """Tasks of any name, and losses without counts."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        super().__init__()
        self.net, self.tasks = nn.Linear(1, len(tasks)), tasks

    def task_losses(self, batch: Tensor) -> Mapping[str, Tensor]:
        return dict(zip(self.tasks, (self.net(batch) - 2).square().mean(0), strict=True))

    def configure_method(self, model: nn.Module) -> Stepper[Any]:
        return Scalarized(model, EW(), outer=sgd())


def test_names_of_tasks_become_safe_and_stay_different() -> None:
    trainer = Trainer(accelerator="cpu", max_epochs=1, **QUIET)
    trainer.fit(Oddities(("mg/dL", "mg dL", "..", "Größe")), torch.ones(2, 3, 1))
    names = {name for name in trainer.callback_metrics if name.endswith("/loss")}
    assert names == {"train/mg_dL/loss", "train/mg_dL_2/loss", "train/__/loss", "train/Größe/loss"}


# States


class Save(Callback):
    """Saves a checkpoint after a batch."""

    def __init__(self, path: Path, epoch: int, batch: int) -> None:
        self.path, self.place = path, (epoch, batch)

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (trainer.current_epoch, batch_idx) == self.place:
            trainer.save_checkpoint(self.path, weights_only=False)


def states(module: Module) -> list[Tensor]:
    """Return all numbers that a run has changed."""
    found: list[Tensor] = []

    def walk(value: Any) -> None:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, dict):
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)
        elif isinstance(value, int | float):
            found.append(torch.tensor(value))

    walk([dict(module.state_dict()), module.method.state_dict()])
    return found


RESUMED = {
    **{name: STEPPERS[name] for name in ("SIMS joint", "FOOPS", "DWA", "UW", "STCH-normalized", "MGDA", "GradNorm")},
    "EW on epoch-wise units": STEPPERS["EW on epoch-wise units"],
    "SIMS with Adam": two_copies(
        SIMS, outer=lambda p: Adam(p, lr=0.01), inner=lambda p: Adam(p, lr=0.05), keep_random_iterate=True
    ),
}


def scheduled(optimizer: Any) -> Any:
    return [optimizer], [
        {"scheduler": ExponentialLR(optimizer, 0.9), "interval": "step"},
        ExponentialLR(optimizer, 0.7),
    ]


@pytest.mark.parametrize("name", RESUMED)
def test_stopped_and_resumed_is_uninterrupted_bit_for_bit(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"accumulate_grad_batches": 2, "batches": BATCHES[:5]}
    whole = Module(RESUMED[name], scheduled, batch_norm=True)
    fit(whole, max_epochs=4, **options)
    first = Module(RESUMED[name], scheduled, batch_norm=True)
    options["enable_checkpointing"] = True
    fit(first, max_epochs=2, callbacks=[ModelCheckpoint(tmp_path, save_last=True)], **options)
    second = Module(RESUMED[name], scheduled, batch_norm=True, seed=5)
    trainer = fit(second, max_epochs=4, callbacks=[ModelCheckpoint(tmp_path)], ckpt_path=tmp_path / STATE, **options)
    assert trainer.global_step == 4 * 3
    assert all(torch.equal(a, b) for a, b in zip(states(second), states(whole), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(states(first), states(whole), strict=True))


class StatefulBatches(Batches):
    """Batches that know where they are, as a resumable data loader does."""

    seen = 0

    def __iter__(self) -> Iterator[Data]:
        self.seen %= len(self)
        while self.seen < len(self):
            self.seen += 1
            yield self._batches[self.seen - 1]

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


def test_a_run_killed_inside_of_an_epoch_goes_on_bit_for_bit(tmp_path: Path) -> None:
    class Killed(Save):
        def on_train_batch_end(self, trainer: Trainer, *rest: Any) -> None:
            super().on_train_batch_end(trainer, *rest)
            if self.path.exists():
                raise InterruptedError

    def run(module: Module, path: Path | None = None, **options: Any) -> Trainer:
        trainer = Trainer(accelerator="cpu", max_epochs=3, accumulate_grad_batches=2, **QUIET, **options)
        trainer.fit(module, StatefulBatches(BATCHES[:5]), ckpt_path=path)
        return trainer

    whole, killed, resumed = (Module(RESUMED["SIMS with Adam"], scheduled, batch_norm=True) for _ in range(3))
    steps = run(whole).global_step
    with pytest.raises(InterruptedError):
        run(killed, callbacks=[Killed(tmp_path / STATE, 1, 3)])
    assert run(resumed, tmp_path / STATE).global_step == steps == 9
    assert all(torch.equal(a, b) for a, b in zip(states(resumed), states(whole), strict=True))


def test_a_checkpoint_can_be_loaded_without_trusting_it(tmp_path: Path) -> None:
    trainer = fit(Module(make_sims), max_epochs=1)
    trainer.save_checkpoint(tmp_path / STATE, weights_only=False)
    checkpoint = torch.load(tmp_path / STATE, weights_only=True)
    assert checkpoint["optimizer_states"][0]["method"]["method"] == "SIMS"


def test_a_checkpoint_between_micro_batches_says_what_it_leaves_out(tmp_path: Path) -> None:
    save = Save(tmp_path / STATE, 0, 1)
    with pytest.warns(UserWarning, match="Found 2 micro-batches of `accumulate_grad_batches` that wait for one"):
        fit(Module(make_sims), max_epochs=1, accumulate_grad_batches=3, callbacks=[save])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit(Module(make_sims), max_epochs=1, accumulate_grad_batches=2, callbacks=[save])


def test_an_epoch_that_ends_early_drops_micro_batches_with_a_warning() -> None:
    class EndsEarly(Module):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
            return -1 if batch_idx == 3 else None

    with pytest.warns(UserWarning, match="The epoch ended early. Found 1 micro-batches without a step"):
        fit(module := EndsEarly(make_sims), accumulate_grad_batches=2)
    assert difference(module, plain_loop(make_sims, parts=2, batches=BATCHES[:2])) < 1e-12


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    trainer = fit(Module(make_sims), max_epochs=1)
    trainer.save_checkpoint(tmp_path / STATE, weights_only=False)
    checkpoint = torch.load(tmp_path / STATE, weights_only=True)
    checkpoint["optimizer_states"] = [SGD([nn.Parameter(torch.ones(1))], lr=1.0).state_dict()]
    torch.save(checkpoint, tmp_path / STATE)
    with pytest.raises(ValueError, match=r"should be one of a `MultiTaskModule`\. Found the state of an optimizer"):
        fit(Module(make_sims), ckpt_path=tmp_path / STATE)


def test_a_module_is_validated_tested_and_used_for_predictions(tmp_path: Path) -> None:
    module = Module(make_sims)
    trainer = fit(module, max_epochs=1)
    trainer.save_checkpoint(tmp_path / STATE, weights_only=True)
    fresh = Validated(make_sims, seed=5)
    trainer = Trainer(accelerator="cpu", **QUIET)
    found = trainer.test(fresh, Batches(BATCHES[:1]), ckpt_path=tmp_path / STATE, verbose=False)
    assert found[0]["test/parameters"] == pytest.approx(parameters(module).sum().item())
    assert trainer.validate(fresh, Batches(BATCHES[:1]), verbose=False)[0].keys() == {"val/a"}
    predictions = trainer.predict(fresh, Batches(BATCHES[:2]))
    assert predictions is not None
    found_b: Any = predictions[1]
    assert torch.equal(found_b["b"], module.net(BATCHES[1].x)["b"])


def test_a_second_fit_starts_with_a_new_method_and_needs_no_new_module() -> None:
    module = Module(STEPPERS["SIMS joint"])
    fit(module)
    first = module.method
    start = {name: each.clone() for name, each in module.net.state_dict().items()}
    fit(module)
    assert module.method is not first

    net = make_net()
    net.load_state_dict(start)
    method = STEPPERS["SIMS joint"](net)
    for batch in 2 * BATCHES:
        method.step(task_losses, batch)
    assert difference(module, net) < 1e-12


def test_the_challenger_can_be_validated() -> None:
    module = Module(make_sims)
    fit(module)
    own = parameters(module)
    assert isinstance(module.method, SIMS)
    with module.method.challenger():
        theirs = parameters(module)
    assert not torch.equal(own, theirs)
    assert torch.equal(own, parameters(module))


def test_losses_may_depend_on_the_trainer_and_return_more() -> None:
    class Curriculum(Module):
        def task_losses(self, batch: Data) -> Any:
            factor = 1.0 + self.current_epoch
            return mean_losses((factor, 1.0, 1.0))(self.net, batch), factor

        def log_report(self, report: Any) -> None:
            assert report.aux == 1.0 + self.current_epoch

    sequential, joint = (Curriculum(two_copies(FOOPS, evaluation=each)) for each in ("sequential", "joint"))
    fit(sequential)
    fit(joint)
    assert difference(sequential, joint) < 1e-12


# Wrong use


class NotOurs(LightningModule):
    """A module with automatic optimization that calls a method itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = make_net()
        self.sims = make_sims(self.net)

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        self.sims.step(task_losses, batch)
        return torch.stack(list(mean_losses()(self.net, batch).values())).sum()

    def configure_optimizers(self) -> Any:
        return self.sims.outer


def test_automatic_optimization_in_a_module_that_is_not_ours_is_one_sentence() -> None:
    trainer = Trainer(accelerator="cpu", max_epochs=1, **QUIET)
    message = r"should step in its `update`\. Found a call of `SGD.step` .* derive from `torchsims.lightning.MultiTask"
    with pytest.raises(RuntimeError, match=message):
        trainer.fit(NotOurs(), Batches(BATCHES))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda model: "sims", TypeError, "should return a method such as .*. Found `str`"),
        (lambda model: make_sims(model.net), ValueError, "the model that it is given. Found one of `Net`"),
        (lambda model: make_sims(model, outer=SGD(model.parameters())), TypeError, "`SGD`, which cannot be called"),
    ],
)
def test_a_wrong_method_is_one_sentence(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fit(Module(make))


def test_a_training_step_of_ones_own_calls_ours() -> None:
    class Replaced(Module):
        def training_step(self, batch: Data, batch_idx: int) -> Tensor:
            return torch.stack(list(mean_losses()(self.net, batch).values())).sum()

    with pytest.raises(RuntimeError, match=r"calls `super\(\)` if it has one\. Found one that does not"):
        fit(Replaced(make_sims))

    class Extended(Module):
        seen = 0

        def training_step(self, batch: Data, batch_idx: int) -> Tensor:
            self.seen += 1
            return super().training_step(batch, batch_idx)

    fit(module := Extended(make_sims))
    assert module.seen == 14
    assert difference(module, plain_loop(make_sims)) < 1e-12


@pytest.mark.parametrize("options", [{}, {"accumulate_grad_batches": 2}, {"gradient_clip_val": 1.0}], ids=str)
def test_an_optimizer_of_ones_own_is_one_sentence(options: dict[str, Any]) -> None:
    class Old(Module):
        def configure_optimizers(self) -> Any:
            return Adam(self.parameters())

    with pytest.raises(RuntimeError, match=r"should return `super\(\).configure_optimizers\(\)`.* Found one that does"):
        fit(Old(make_sims), **options)


def test_manual_optimization_is_refused() -> None:
    module = Module(make_sims)
    module.automatic_optimization = False
    with pytest.raises(ValueError, match="Found `automatic_optimization = False`"):
        fit(module)


def test_the_method_is_there_during_a_fit_only() -> None:
    module = Module(make_sims)
    with pytest.raises(AttributeError, match="should be used during a fit"):
        _ = module.method
    assert not hasattr(module, "method")
    with pytest.raises(AttributeError, match="no attribute 'methods'"):
        _ = module.methods
    fit(module)
    assert hasattr(module, "method")
    with pytest.raises(AttributeError, match="should be used during a fit"):
        _ = copy.deepcopy(module).method
    with pytest.raises(RuntimeError, match="should step in a step of the trainer"):
        module.trainer.optimizers[0].step()


def test_a_strategy_that_takes_its_own_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(make_sims)
    fit(module)

    class Other:
        pass

    monkeypatch.setattr(type(module.trainer), "strategy", property(lambda self: Other()))
    with pytest.raises(TypeError, match="Found `Other`"):
        module.configure_optimizers()


def test_random_numbers_of_a_run_are_those_of_its_seed() -> None:
    runs = []
    for _ in range(2):
        seed_everything(3, verbose=False)
        runs.append(Module(make_sims, dropout=0.5))
        fit(runs[-1])
    assert difference(*runs) == 0
