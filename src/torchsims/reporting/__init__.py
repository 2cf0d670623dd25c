"""What every command leaves behind: numbers as JSON, tables, figures and one self-contained page.

Figures are imported when they are first used, so that a command can check its input before plots are loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchsims.reporting._columns import Column, Row
from torchsims.reporting._live import ShowRows, live_table
from torchsims.reporting._progress import Advance, Progress, show_progress
from torchsims.reporting._report import Report, check_out, write
from torchsims.reporting._runs import History, Run, run_columns, runs_table, table, task_means, trained_tasks
from torchsims.reporting._tables import markdown

if TYPE_CHECKING:  # what `__getattr__` does, for readers and type checkers
    from torchsims.reporting._bars import delta_bars, metric_against, paired_change
    from torchsims.reporting._curves import training_curves, validation_curves, weight_curves
    from torchsims.reporting._maps import heat_maps
    from torchsims.reporting._pictures import colour_map, picture_row, png, predictions

__all__ = [
    "Advance",
    "Column",
    "History",
    "Progress",
    "Report",
    "Row",
    "Run",
    "ShowRows",
    "check_out",
    "colour_map",
    "delta_bars",
    "heat_maps",
    "live_table",
    "markdown",
    "metric_against",
    "paired_change",
    "picture_row",
    "png",
    "predictions",
    "run_columns",
    "runs_table",
    "show_progress",
    "table",
    "task_means",
    "trained_tasks",
    "training_curves",
    "validation_curves",
    "weight_curves",
    "write",
]

_HOMES = {
    **dict.fromkeys(("delta_bars", "metric_against", "paired_change"), "_bars"),
    **dict.fromkeys(("training_curves", "validation_curves", "weight_curves"), "_curves"),
    "heat_maps": "_maps",
    **dict.fromkeys(("colour_map", "picture_row", "png", "predictions"), "_pictures"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"torchsims.reporting.{_HOMES[name]}"), name)
