"""The table and the figure of the proximal weight.

torchsims reproduce lambda --data scenes --out runs/lambda
"""

from torchsims.sweeps import Comparison, option_comparison
from torchsims.training import RunConfig

VALUES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    return option_comparison(
        config, seeds, "The proximal weight of SIMS", option="prox", values=VALUES, symbol=r"$\lambda$"
    )
