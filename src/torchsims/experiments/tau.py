"""The table and the figure of the temperature.

torchsims reproduce tau --data scenes --out runs/tau
"""

from torchsims.experiments._parameter import sweep
from torchsims.experiments.compare import Comparison
from torchsims.training import Settings

__all__ = ["VALUES", "comparison"]

VALUES = (0.1, 0.5, 1.0, 3.0, 5.0, 10.0)


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    title = "The temperature of SIMS"
    return sweep(base, seeds, command, title=title, option="tau", values=VALUES, symbol=r"$\tau$")
