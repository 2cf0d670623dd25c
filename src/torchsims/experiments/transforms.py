"""The table of transformations: the merit function of psi(L) for six functions psi.

torchsims reproduce transforms --data scenes --out runs/transforms
"""

from torchsims.sweeps import Comparison, method_grid, with_variant
from torchsims.training import RunConfig

METHODS = ("ew", *(f"sims:transform={psi}" for psi in ("ln", "x^2", "x", "sqrt", "asinh0.1", "asinh0.01")))


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    notes = ("asinh0.1 is asinh(x / 0.1). SIMS is the row with ln.",)
    configs = method_grid(config, METHODS, seeds)
    return Comparison("Transformations of the losses", configs, with_variant(config, "ew"), notes)
