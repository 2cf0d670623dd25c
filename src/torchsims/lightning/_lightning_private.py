"""Everything in this room that relies on private parts of Lightning or torch, which any release may change.

`tests/lightning/test_lightning_private.py` checks each of them and names the part that changed.
"""

from torch.optim import Optimizer

__all__ = ["UnscaledOptimizer"]


class UnscaledOptimizer(Optimizer):
    """An optimizer whose gradients are unscaled already: neither Lightning nor `GradScaler` does it once more."""

    _step_supports_amp_scaling = True
