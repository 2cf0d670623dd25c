"""Many training runs: what to run, where each run leaves its results, and processes that run them.

A run is the same command everywhere; a comparison is a list of configurations.

Example:
    >>> from torchsims.sweeps import method_grid
    >>> from torchsims.training import complete_config
    >>> [config.method for config in method_grid(complete_config({}), ["ew", "sims:tau=1"], seeds=1)]
    ['ew', 'sims:tau=1']
"""

from torchsims.sweeps._studies import without_password
from torchsims.sweeps.executors import EXECUTORS, Executor, make_executor
from torchsims.sweeps.folders import find_runs, folder_name, train_and_report
from torchsims.sweeps.plans import (
    Comparison,
    method_grid,
    option_comparison,
    run_comparison,
    with_shared_temperature,
    with_variant,
)
from torchsims.sweeps.running import check_cells
from torchsims.sweeps.tuning import Tuned, search_space, tune, with_tuned

__all__ = [
    "EXECUTORS",
    "Comparison",
    "Executor",
    "Tuned",
    "check_cells",
    "find_runs",
    "folder_name",
    "make_executor",
    "method_grid",
    "option_comparison",
    "run_comparison",
    "search_space",
    "train_and_report",
    "tune",
    "with_shared_temperature",
    "with_tuned",
    "with_variant",
    "without_password",
]
