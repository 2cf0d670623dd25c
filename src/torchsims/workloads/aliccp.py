"""Ali-CCP, or a synthetic click log like it: clicks, and purchases after clicks."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from torch.utils.data import Dataset

from torchsims.data.clicks import ClickLog, Clicks, convert, generate_clicks, open_log
from torchsims.metrics import AUC, TaskMetric
from torchsims.models import class_loss
from torchsims.workloads.base import choose_tasks
from torchsims.workloads.datasets import InMemory, Items
from torchsims.workloads.tabular import TARGET, TabularWorkload
from torchsims.workloads.task import TaskSpec

TASKS = ("ctr", "cvr", "ctcvr")
EVERY = 20  # one in 20 training rows is for validation, if the log has no such split


@final
class _Impressions(Dataset[dict[str, Tensor]]):
    """Impressions as tensors, read on demand: all of a log, or one of the splits it is divided into.

    A batch has 33 columns, each read by itself: a log that is in memory anyway is read once.
    """

    def __init__(self, log: ClickLog, part: Clicks, split: str = "") -> None:
        self._log, self._part, self._split = log, part, split
        held_out = len(part) // EVERY
        self._size = {"train": len(part) - held_out, "val": held_out}.get(split, len(part))
        self._mean, self._sd = np.array(list(log.numbers.values()), dtype=np.float32).reshape(-1, 2).T

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[0] for name, column in self.batch([index]).items()}

    def batch(self, items: Items) -> dict[str, Tensor]:
        rows = self._place(np.asarray(items, dtype=np.int64))
        click, purchase = (labels[rows].astype(np.int64) for labels in (self._part.click, self._part.purchase))
        numbers = (self._part.columns(list(self._log.numbers), rows) - self._mean) / self._sd
        columns: dict[str, NDArray[Any]] = {
            "numbers": numbers.astype(np.float32),
            "codes": self._part.columns(list(self._log.codes), rows).astype(np.int64),
            f"{TARGET}ctr": click,
            f"{TARGET}cvr": np.where(click > 0, purchase, -1),
            f"{TARGET}ctcvr": purchase,
        }
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def _place(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._split == "train":
            return items + items // (EVERY - 1)
        return EVERY * items + EVERY - 1 if self._split == "val" else items


@final
class AliCCPWorkload(TabularWorkload):
    """Clicks of all impressions (``ctr``), purchases of the clicked ones (``cvr``), and purchases of all (``ctcvr``).

    The area under the ROC curve is reported for all three where two are trained: the third probability is a product or
    a quotient of the others. ESMM trains ``ctr`` and ``ctcvr``.

    Args:
        rows: number of impressions of the synthetic log to train on, with half as many to test on; with files, the
            largest number that is used, 0 for all.
        log_seed: seed of the synthetic log.
        min_count: ids of files that occur fewer times in training share one code.
        columns: folder for the converted columns of files; one in the folder of the files by default.
        tasks: out of ``ctr``, ``cvr`` and ``ctcvr``; the first two by default.
        root: folder of the files of Ali-CCP, raw or preprocessed; empty for a synthetic log.
    """

    architectures: ClassVar[tuple[str, ...]] = ("sharedbottom", "mlp", "mmoe", "ple", "esmm")
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
        root: str = "",
    ) -> None:
        chosen = choose_tasks(tasks, TASKS, TASKS[:2])
        if not rows >= 0:
            raise ValueError(f"Option `rows` should not be negative. Found `rows={rows}`.")
        self._log = (
            open_log(convert(root, columns or None, min_count)) if root else _synthetic_log(rows or 100_000, log_seed)
        )
        self._limit, self._in_files = rows, bool(root)
        self._kept: dict[str, InMemory] = {}
        self._describe(chosen, len(self._log.numbers), self._log.codes.values())

    def _describe(self, tasks: Sequence[str], numbers: int, codes: Iterable[int]) -> None:
        self.specs = {task: TaskSpec(task, 1, class_loss, AUC, decode=torch.sigmoid) for task in tasks}
        self.numbers, self.codes = numbers, tuple(codes)

    def prediction_state(self) -> dict[str, Any]:
        """Return the numbers of features and codes."""
        return {"numbers": self.numbers, "codes": list(self.codes)}

    @classmethod
    def restore(
        cls, options: Mapping[str, Any], tasks: Sequence[str], root: str, state: Mapping[str, Any]
    ) -> "AliCCPWorkload":
        workload = cls.__new__(cls)
        workload._describe(choose_tasks(tasks, TASKS, TASKS[:2]), state["numbers"], state["codes"])
        return workload

    def items(self, name: str) -> int:
        return len(self._impressions(name))

    def split(self, name: str) -> _Impressions | InMemory:
        if self._in_files:
            return self._impressions(name)
        if name not in self._kept:
            found = self._impressions(name)
            self._kept[name] = InMemory(found.batch(np.arange(len(found))))
        return self._kept[name]

    def _impressions(self, name: str) -> _Impressions:
        log, splits = self._log, self._log.splits
        if name in splits and (name == "test" or "val" in splits):
            return _Impressions(log, splits[name])
        return _Impressions(log, splits["train"].part(slice(self._limit or None)), name)

    def predict(self, model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return logits of the trained tasks, and scores that rank as the probabilities of the others would."""
        found = super().predict(model, batch)
        if "ctr" in found and "cvr" in found and "ctcvr" not in found:
            found["ctcvr"] = logsigmoid(found["ctr"]) + logsigmoid(found["cvr"])
        elif "ctr" in found and "ctcvr" in found and "cvr" not in found:
            found["cvr"] = logsigmoid(found["ctcvr"]) - logsigmoid(found["ctr"])
        return found

    def metrics(self) -> dict[str, TaskMetric]:
        return {task: AUC() for task in (TASKS if "ctr" in self.specs and len(self.specs) > 1 else self.tasks)}


@lru_cache(maxsize=2)  # every run of a comparison trains on the same log
def _synthetic_log(rows: int, seed: int) -> ClickLog:
    clicks = generate_clicks(rows + rows // 2, seed)
    return ClickLog.in_memory(clicks.part(slice(rows)), clicks.part(slice(rows, None)))
