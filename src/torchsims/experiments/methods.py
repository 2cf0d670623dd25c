"""The main table: every method on one workload, with one network a task beside them.

    torchsims reproduce methods --data scenes --seeds 3 --out runs/methods

The paper compares with STCH in its normalised form and gives STCH, FOOPS and SIMS one temperature; the plain form is
here too, because it is the one that sees the scales.
"""

from torchsims.experiments.compare import Comparison, grid_of, tempered, variant
from torchsims.training import Settings

__all__ = ["METHODS", "comparison"]

METHODS = (
    "ew",
    "stl",
    "rlw",
    "uw",
    "dwa",
    "imtll",
    "gls",
    "chebyshev",
    "stch",
    "stch:normalize=yes",
    "famo",
    "mgda",
    "pcgrad",
    "cagrad",
    "nashmtl",
    "fairgrad",
    "gradnorm",
    "dbmtl",
    "foops",
    "logmerit",
    "sims",
)


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    return Comparison("Methods", command, grid_of(base, tempered(base, METHODS), seeds), variant(base, "ew").label)
