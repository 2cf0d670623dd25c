"""A small `LightningModule` of every method, and how it is fitted."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lightning.pytorch import Trainer
from torch import nn

from helpers.methods import Maker
from helpers.support import Data, make_data, make_net, parameters, task_losses
from torchsims import Stepper, TaskLosses
from torchsims.lightning import MultiTaskModule

QUIET: dict[str, Any] = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}

BATCHES = make_data(26, share=0.8).split([4, 6, 2, 4, 6, 3, 1])
"""Batches of unequal sizes, with partial labels."""


class Batches:
    """An iterable of given batches, as a data loader is one."""

    def __init__(self, batches: Sequence[Data]) -> None:
        self._batches = list(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Data]:
        return iter(self._batches)


class Module(MultiTaskModule):
    """The network of the other tests with any method."""

    def __init__(self, make: Maker, schedule: Callable[[Any], Any] | None = None, **options: Any) -> None:
        super().__init__()
        self.net = make_net(**options)
        self._make, self._schedule = make, schedule

    def task_losses(self, batch: Data) -> TaskLosses:
        return task_losses(self.net, batch)

    def configure_method(self, model: nn.Module) -> Stepper[Any]:
        return self._make(model)

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        return optimizer if self._schedule is None else self._schedule(optimizer)

    def test_step(self, batch: Data, batch_idx: int) -> None:
        self.log("test/parameters", parameters(self).sum())

    def predict_step(self, batch: Data, batch_idx: int) -> Any:
        return self.net(batch.x)


class Validated(Module):
    """The same with a validation."""

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        self.log("val/a", (self.net(batch.x)["a"] - batch.y[:, 0]).square().mean(), batch_size=len(batch.x))


def fit(module: Module, *, batches: Sequence[Data] = BATCHES, ckpt_path: Any = None, **options: Any) -> Trainer:
    """Fit on the CPU, without output unless options ask for it."""
    trainer = Trainer(accelerator="cpu", **{"max_epochs": 2, **QUIET, **options})
    trainer.fit(module, Batches(batches), ckpt_path=ckpt_path)
    return trainer


def plain_loop(
    make: Maker,
    *,
    parts: int = 1,
    epochs: int = 2,
    batches: Sequence[Data] = BATCHES,
    after_backward: Callable[[Stepper[Any]], object] = lambda method: None,
    after_step: Callable[[Stepper[Any]], object] = lambda method: None,
    **options: Any,
) -> nn.Module:
    """Return the network after the same steps in a loop by hand."""
    net = make_net(**options)
    method = make(net)
    for epoch in range(epochs):
        if epoch:
            method.end_epoch()
        for start in range(0, len(batches), parts):
            method.backward(task_losses, *batches[start : start + parts])
            after_backward(method)
            method.update()
            after_step(method)
    return net
