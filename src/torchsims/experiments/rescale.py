"""The table of rescaling: methods with the losses as they are, and with the loss of one task times 100.

    torchsims reproduce rescale --data scenes --seeds 3 --out runs/rescale

Delta_b is relative to EW with the losses as they are.
"""

from dataclasses import replace

from torchsims.experiments.compare import Comparison, grid_of, tempered, variant
from torchsims.training import Settings

__all__ = ["METHODS", "comparison"]

METHODS = ("ew", "uw", "gls", "stch", "stch:normalize=yes", "foops", "logmerit", "sims")
FACTOR = 100.0


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run; ``base`` may name what to multiply, otherwise it is depth, or the first task, times 100."""
    tasks = base.workload().tasks
    factors = dict(base.rescale) or {"depth" if "depth" in tasks else tasks[0]: FACTOR}
    plain, methods = replace(base, rescale={}), tempered(base, METHODS)
    before = grid_of(plain, methods, seeds)
    after = grid_of(replace(base, rescale=factors), methods, seeds)
    runs = tuple(run for pair in zip(before, after, strict=True) for run in pair)
    return Comparison("The loss of a task rescaled", command, runs, variant(plain, "ew").label)
