"""Many training runs: what to run, where each run leaves its results, and processes that run them.

A run is the same command everywhere; a comparison is a list of configurations.

Example:
    >>> from torchsims.sweeps import method_grid
    >>> from torchsims.training import complete_config
    >>> [config.method for config in method_grid(complete_config({}), ["ew", "sims:tau=1"], seeds=1)]
    ['ew', 'sims:tau=1']
"""

from torchsims.sweeps.folders import find_runs, folder_name, train_and_report
from torchsims.sweeps.local import check_cells
from torchsims.sweeps.plans import (
    Comparison,
    method_grid,
    option_comparison,
    run_comparison,
    with_shared_temperature,
    with_variant,
)

__all__ = [
    "Comparison",
    "check_cells",
    "find_runs",
    "folder_name",
    "method_grid",
    "option_comparison",
    "run_comparison",
    "train_and_report",
    "with_shared_temperature",
    "with_variant",
]
