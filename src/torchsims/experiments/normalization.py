"""The tables of loss normalisation: estimates of the size of a loss in place of the logarithm.

    torchsims reproduce normalization --data scenes --out runs/normalization

Rows of FOOPS are the merit function of the losses divided by an estimate: the mean of epoch 2, that of the last epoch,
or a moving average over steps. The last rows are methods with one copy on divided losses.
"""

from torchsims.sweeps import Comparison, method_grid, with_variant
from torchsims.training import RunConfig

METHODS = (
    "ew",
    "sims",
    *(f"foops:normalizer={size}" for size in ("fixed", "epochwise", "ema")),
    "ew:normalizer=ema",
    "stch:normalizer=epochwise",
)


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    return Comparison("Loss normalisation", method_grid(config, METHODS, seeds), with_variant(config, "ew"))
