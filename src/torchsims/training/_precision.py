from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch.amp.grad_scaler import GradScaler

__all__ = ["Precision"]

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@final
class Precision:
    """In which precision the forward passes of training compute.

    Args:
        name: ``"none"``, ``"bf16"`` or ``"fp16"``; the last one needs a scaler, because its range is small.
        device: where.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self._dtype, self._device = TYPES.get(name), device.type
        self.scaler = GradScaler(device.type, enabled=self._dtype is torch.float16)

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        return nullcontext() if self._dtype is None else torch.autocast(self._device, self._dtype)

    def end_step(self) -> None:
        """Let the scaler adapt."""
        if self.scaler.is_enabled():
            self.scaler.update()
