"""The table and the figure of the temperature.

torchsims reproduce tau --data scenes --out runs/tau
"""

from torchsims.sweeps import Comparison, option_comparison
from torchsims.training import RunConfig

VALUES = (0.1, 0.5, 1.0, 3.0, 5.0, 10.0)


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    return option_comparison(config, seeds, "The temperature of SIMS", option="tau", values=VALUES, symbol=r"$\tau$")
