"""Small runs of `MultiTaskTrainer`, and the plain loop that they should equal."""

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import TrainerCallback, TrainingArguments, default_data_collator

from helpers.support import Data, make_data, make_net, task_losses
from torchsims import Report, Stepper, TaskLosses
from torchsims.huggingface import MultiTaskTrainer

SAMPLES = 22
COLUMNS = ["x", "y", "known"]

gc.freeze()  # every run starts with a collection of garbage, which takes a third of a second with all that is imported


class Rows(Dataset[dict[str, Tensor]]):
    """Data of which some targets are not known, by rows."""

    def __init__(self, samples: int = SAMPLES, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        self.data = make_data(samples, dtype, seed, share=0.7)

    def __len__(self) -> int:
        return len(self.data.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        data = self.data
        return {"x": data.x[index], "y": data.y[index], "known": data.known[index], "index": torch.tensor(index)}


def closure(model: nn.Module, inputs: dict[str, Tensor]) -> TaskLosses:
    return task_losses(model, Data(*(inputs[name] for name in COLUMNS)))


class Order:
    """A collator that remembers which rows it made each batch of; it can drop rows, so that batches are unequal."""

    def __init__(self, sizes: Sequence[int] = ()) -> None:
        self.batches: list[list[int]] = []
        self._sizes = sizes

    def __call__(self, rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        if self._sizes:
            rows = rows[: self._sizes[len(self.batches) % len(self._sizes)]]
        self.batches.append([int(row["index"]) for row in rows])
        batch: dict[str, Tensor] = default_data_collator(rows)
        return batch


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    """Return arguments of a quiet run of 2 epochs, of 3 steps each: 2 micro-batches of up to 4 rows a step."""
    return TrainingArguments(
        str(folder),
        **{
            "num_train_epochs": 2,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "label_names": COLUMNS,
            "remove_unused_columns": False,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
            "logging_steps": 1,
            "save_strategy": "no",
            **options,
        },
    )


def make_trainer(
    folder: Path, method: Callable[[nn.Module], Stepper[Any]], options: dict[str, Any] | None = None, **given: Any
) -> MultiTaskTrainer:
    """Return a trainer of a small network; ``options`` are training arguments."""
    data = {"model": make_net(), "train_dataset": Rows(), "data_collator": Order(), "task_losses": closure}
    return MultiTaskTrainer(args=arguments(folder, **(options or {})), method=method, **{**data, **given})


def steps_of(batches: Sequence[Any], per_epoch: int, accumulation: int) -> list[list[Any]]:
    """Return the micro-batches of every step; the last step of an epoch may have fewer."""
    epochs = [batches[i : i + per_epoch] for i in range(0, len(batches), per_epoch)]
    return [list(epoch[i : i + accumulation]) for epoch in epochs for i in range(0, len(epoch), accumulation)]


def plain_loop(
    method: Stepper[Any],
    steps: Sequence[Sequence[Data]],
    max_norm: float = 0.0,
    epoch: int = 3,
    closure: Callable[..., Any] = task_losses,
) -> tuple[list[Report], list[Tensor]]:
    """Take the steps by hand, with rates that fall linearly to zero; return the reports and the norms of gradients.

    Args:
        method: the method.
        steps: the micro-batches of every step.
        max_norm: where gradients are clipped, if it is not zero.
        epoch: the number of steps in an epoch.
        closure: computes the losses.
    """
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in method.optimizers]
    reports, norms = [], []
    for number, micro_batches in enumerate(steps):
        for optimizer, starts in zip(method.optimizers, rates, strict=True):
            for group, start in zip(optimizer.param_groups, starts, strict=True):
                group["lr"] = start * (len(steps) - number) / len(steps)
        reports.append(method.backward(closure, *micro_batches))
        if max_norm:
            norms.append(method.clip_grad_norm_(max_norm))
        method.update()
        if (number + 1) % epoch == 0:
            method.end_epoch()
    return reports, norms


def pick(data: Data, rows: Sequence[int]) -> Data:
    index: Any = list(rows)
    return data[index]


class Stop(TrainerCallback):  # type: ignore[misc]  # its types are not read
    """Ends a run in the middle, as an error would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt
