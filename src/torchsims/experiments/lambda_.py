"""The table and the figure of the proximal weight.

torchsims reproduce lambda --data scenes --out runs/lambda
"""

from torchsims.experiments._parameter import sweep
from torchsims.experiments.compare import Comparison
from torchsims.training import Settings

__all__ = ["VALUES", "comparison"]

VALUES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    title = "The proximal weight of SIMS"
    return sweep(base, seeds, command, title=title, option="prox", values=VALUES, symbol=r"$\lambda$")
