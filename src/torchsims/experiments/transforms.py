"""The table of transformations: the merit function of psi(L) for six functions psi.

torchsims reproduce transforms --data scenes --out runs/transforms
"""

from torchsims.experiments.compare import Comparison, grid_of, variant
from torchsims.training import Settings

__all__ = ["METHODS", "comparison"]

METHODS = ("ew", *(f"sims:transform={psi}" for psi in ("ln", "x^2", "x", "sqrt", "asinh0.1", "asinh0.01")))


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    notes = ("asinh0.1 is asinh(x / 0.1). SIMS is the row with ln.",)
    return Comparison(
        "Transformations of the losses", command, grid_of(base, METHODS, seeds), variant(base, "ew").label, notes
    )
