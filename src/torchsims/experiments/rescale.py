"""The table of rescaling: methods with the losses as they are, and with the loss of one task times 100.

    torchsims reproduce rescale --data scenes --seeds 3 --out runs/rescale

Delta_b is relative to EW with the losses as they are.
"""

from dataclasses import replace

from torchsims.sweeps import Comparison, method_grid, with_shared_temperature, with_variant
from torchsims.training import RunConfig, resolve

METHODS = ("ew", "uw", "gls", "stch", "stch:normalize=yes", "foops", "logmerit", "sims")
FACTOR = 100.0


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run; multiplied is the loss that ``config.rescale`` names, that of depth, or the first."""
    tasks = resolve(config).workload.tasks
    factors = dict(config.rescale) or {"depth" if "depth" in tasks else tasks[0]: FACTOR}
    unscaled, methods = replace(config, rescale={}), with_shared_temperature(config, METHODS)
    before = method_grid(unscaled, methods, seeds)
    after = method_grid(replace(config, rescale=factors), methods, seeds)
    configs = tuple(each for pair in zip(before, after, strict=True) for each in pair)
    return Comparison("The loss of one task rescaled", configs, with_variant(unscaled, "ew"))
