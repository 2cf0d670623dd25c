"""The tables of loss normalisation: estimates of the size of a loss in place of the logarithm.

    torchsims reproduce normalization --data scenes --out runs/normalization

Rows of FOOPS are the merit function of the losses divided by an estimate: the mean of epoch 2, that of the last epoch,
or a moving average over steps. The last rows are one-copy methods on divided losses.
"""

from torchsims.experiments.compare import Comparison, grid_of, variant
from torchsims.training import Settings

__all__ = ["METHODS", "comparison"]

METHODS = (
    "ew",
    "sims",
    *(f"foops:normalizer={size}" for size in ("fixed", "epochwise", "ema")),
    "ew:normalizer=ema",
    "stch:normalizer=epochwise",
)


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    return Comparison("Loss normalisation", command, grid_of(base, METHODS, seeds), variant(base, "ew").label)
