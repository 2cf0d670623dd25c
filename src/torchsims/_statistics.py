"""Modules whose statistics take their shape from the first losses they see."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["WithStatistics"]


class WithStatistics(nn.Module):
    """A module that keeps statistics of losses as buffers, and closes epochs."""

    def end_epoch(self) -> None:
        """Close an epoch; for methods that look at epochs."""

    def _remember(self, *names: str) -> None:
        """Register statistics that are empty until the first step gives them a shape."""
        for name in names:
            self.register_buffer(name, torch.empty(0))

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for name, buffer in self._buffers.items():
            saved = state_dict.get(prefix + name)
            if buffer is not None and isinstance(saved, Tensor) and saved.shape != buffer.shape:
                self._buffers[name] = torch.empty_like(saved, device=buffer.device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
