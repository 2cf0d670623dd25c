"""Ali-CCP, or made-up click logs that look like it: clicks, and purchases after clicks."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from torchsims._specs import choose
from torchsims.data.clicks import ClickLog, Clicks, convert, generate_clicks, open_log
from torchsims.losses import TaskLosses
from torchsims.metrics import AUC, TaskMetric
from torchsims.models import table_losses
from torchsims.workloads._base import Batch, Batched
from torchsims.workloads._tabular import AT_ONCE, TabularWorkload

__all__ = ["AliCCPWorkload"]

TASKS = ("ctr", "cvr", "ctcvr")
EVERY = 20  # of the training rows one so many is to validate on, where the log has no such split


@final
class _Impressions(Batched):
    """Impressions as tensors, read when they are asked for."""

    at_once = AT_ONCE

    def __init__(self, log: ClickLog, part: Clicks, rows: range | None = None, kept: int | None = None) -> None:
        self._log, self._part = log, part
        self._rows, self._kept = rows, kept  # a part of the rows, or all but one in so many
        self._mean, self._sd = np.array(list(log.numbers.values()), dtype=np.float32).reshape(-1, 2).T

    def __len__(self) -> int:
        if self._kept is not None:
            return len(self._part) - len(self._part) // self._kept
        return len(self._part) if self._rows is None else len(self._rows)

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        rows = self._place(np.asarray(items, dtype=np.int64))
        click, purchase = (labels[rows].astype(np.int64) for labels in (self._part.click, self._part.purchase))
        numbers = (self._part.columns(list(self._log.numbers), rows) - self._mean) / self._sd
        columns: dict[str, NDArray[Any]] = {
            "numbers": numbers.astype(np.float32),
            "codes": self._part.columns(list(self._log.codes), rows).astype(np.int64),
            "ctr": click,
            "cvr": np.where(click > 0, purchase, -1),
            "ctcvr": purchase,
        }
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def _place(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._kept is not None:
            return items + items // (self._kept - 1)
        return items if self._rows is None else self._rows.start + self._rows.step * items


@final
class AliCCPWorkload(TabularWorkload):
    """Clicks of all impressions (``ctr``), purchases of the clicked ones (``cvr``), and purchases of all (``ctcvr``).

    The area under the ROC curve is reported for all three where two are trained: a product of probabilities is the
    third, or a quotient. ESMM trains ``ctr`` and ``ctcvr``.

    Args:
        rows: how many impressions are made up to train on, half as many to test on; with files, how many are used at
            most, 0 for all.
        log_seed: another one is another made-up log.
        min_count: of files, ids that occur fewer times in training share one code.
        columns: where the columns of files go; a folder in that of the files by default.
        tasks: out of ``ctr``, ``cvr`` and ``ctcvr``; the first two by default.
        root: the folder of the files of Ali-CCP, raw or preprocessed; none for a made-up log.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 3, "batch": 1024, "lr": 1e-3, "model": "sharedbottom"},
        "small": {"epochs": 2, "batch": 256, "lr": 2e-3, "model": "sharedbottom:embedding=4"},
    }

    def __init__(
        self,
        rows: int = 0,
        log_seed: int = 0,
        min_count: int = 2,
        columns: str = "",
        *,
        tasks: Sequence[str] = (),
        root: str | None = None,
    ) -> None:
        for task in tasks:
            choose("task", task, TASKS)
        if not rows >= 0:
            raise ValueError(f"Option `rows` should not be negative. Found `rows={rows}`.")
        self.tasks = tuple(tasks or TASKS[:2])
        self._log = open_log(convert(root, columns or None, min_count)) if root else _made_up(rows or 100_000, log_seed)
        self._limit = rows
        self.outputs = dict.fromkeys(self.tasks, 1)
        self.width, self.codes = len(self._log.numbers), tuple(self._log.codes.values())

    def split(self, name: str) -> Batched:
        log, splits = self._log, self._log.splits
        if name in splits and (name == "test" or "val" in splits):
            return _Impressions(log, splits[name])
        train = splits["train"].part(slice(self._limit or None))
        if name == "train":
            return _Impressions(log, train, kept=EVERY)
        return _Impressions(log, train, rows=range(EVERY - 1, len(train), EVERY))

    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return logits of the trained tasks, and scores that rank as the probabilities of the others would."""
        found = super().predict(model, batch)
        if "ctr" in found and "cvr" in found and "ctcvr" not in found:
            found["ctcvr"] = logsigmoid(found["ctr"]) + logsigmoid(found["cvr"])
        elif "ctr" in found and "ctcvr" in found and "cvr" not in found:
            found["cvr"] = logsigmoid(found["ctcvr"]) - logsigmoid(found["ctr"])
        return found

    def losses(self, predictions: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> TaskLosses:
        return table_losses({task: predictions[task] for task in self.tasks}, batch, {})

    def metrics(self) -> dict[str, TaskMetric]:
        reported = TASKS if "ctr" in self.tasks and len(self.tasks) > 1 else self.tasks
        return {task: AUC() for task in reported}


@lru_cache(maxsize=2)  # settings are checked before a run, and every run of a comparison trains on the same log
def _made_up(rows: int, seed: int) -> ClickLog:
    world = generate_clicks(rows + rows // 2, seed)
    return ClickLog.in_memory(world.part(slice(rows)), world.part(slice(rows, None)))
