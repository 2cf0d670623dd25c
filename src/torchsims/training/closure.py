"""The closure of a run: the losses of its data on a batch, in mixed precision and rescaled if it says so."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from torchsims.losses import TaskLosses
from torchsims.training.config import RunConfig
from torchsims.workloads import Workload

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@final
class RunClosure:
    """Computes the losses of a batch; ``with_outputs`` also returns predictions and targets.

    Example:
        >>> from torchsims.workloads import load_workload
        >>> workload = load_workload("scenes:images=8:resolution=32")
        >>> closure = RunClosure(workload, RunConfig(), torch.device("cpu"))
        >>> batch = closure.to_device(workload.split("train").batch([0, 1]))
        >>> sorted(closure(workload.build_model("hps:width=8"), batch).mean())
        ['depth', 'normals', 'seg']
    """

    def __init__(self, workload: Workload, config: RunConfig, device: torch.device) -> None:
        self._workload, self._device, self._rescale = workload, device, dict(config.rescale)
        self._dtype: torch.dtype = getattr(torch, config.dtype)
        low = AUTOCAST.get(config.autocast)
        self._autocast = nullcontext if low is None else partial(torch.autocast, device.type, low)

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor]) -> TaskLosses:
        return self._losses(self._predict(model, batch), batch)

    def with_outputs(
        self, model: nn.Module, batch: Mapping[str, Tensor]
    ) -> tuple[TaskLosses, dict[str, tuple[Tensor, Tensor]]]:
        """Return the losses, and the prediction and the target of every task that has one."""
        predictions, targets = self._predict(model, batch), self._workload.targets(batch)
        pairs = {task: (predictions[task], targets[task]) for task in self._workload.tasks if task in targets}
        return self._losses(predictions, batch), pairs

    def to_device(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a batch where the model is, in its precision."""
        return {
            name: value.to(self._device, self._dtype if value.is_floating_point() else None, non_blocking=True)
            for name, value in batch.items()
        }

    def _predict(self, model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with self._autocast():
            return self._workload.predict(model, batch)

    def _losses(self, predictions: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> TaskLosses:
        losses = self._workload.losses(predictions, batch)
        if not self._rescale:
            return losses
        assert isinstance(losses.total, Mapping)
        scaled = {task: self._rescale.get(task, 1.0) * total for task, total in losses.total.items()}
        return TaskLosses(total=scaled, count=losses.count)
