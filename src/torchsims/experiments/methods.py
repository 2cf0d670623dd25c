"""The main table: every method on one data set, with one network per task beside them.

    torchsims reproduce methods --data scenes --seeds 3 --out runs/methods

The paper compares with STCH in its normalised form and gives STCH, FOOPS and SIMS one temperature; the plain form is
here too, because it is the one that depends on the scales.
"""

from torchsims.sweeps import Comparison, method_grid, with_shared_temperature, with_variant
from torchsims.training import RunConfig

METHODS = (
    *("ew", "stl", "rlw", "uw", "dwa", "imtll", "gls", "chebyshev", "stch", "stch:normalize=yes", "famo"),
    *("ldcmtl", "slaw", "uwso", "go4align"),
    *("mgda", "mgda:every=4", "pcgrad", "cagrad", "nashmtl", "fairgrad", "gradnorm", "dbmtl"),
    *("foops", "logmerit", "sims"),
)


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    configs = method_grid(config, with_shared_temperature(config, METHODS), seeds)
    return Comparison("Methods", configs, with_variant(config, "ew"))
