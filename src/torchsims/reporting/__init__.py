"""What every command leaves behind: numbers as JSON, tables, figures and one self-contained page.

A :class:`Report` is the result of a command and :func:`write_report` writes its folder; :func:`run_report`,
:func:`comparison_report` and :func:`prediction_report` make reports of runs and predictions. What draws is imported
when it is first used, so that a command can check its input before matplotlib is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchsims.reporting._progress import (
    Advance,
    Progress,
    RunState,
    RunStatus,
    ShowStatus,
    live_table,
    show_progress,
)
from torchsims.reporting._report import Failure, Report, Starved, check_output_dir, write_report
from torchsims.reporting._runs import run_columns, runs_table, summary_table
from torchsims.reporting._tables import Column, Row, file_name, markdown

if TYPE_CHECKING:  # what `__getattr__` does, for readers and type checkers
    from torchsims.reporting._bars import delta_bars, heat_maps, metric_against, paired_change
    from torchsims.reporting._comparison import comparison_report, delta_b_by_label, run_report, worst_shortfalls
    from torchsims.reporting._curves import training_curves, validation_curves, weight_curves
    from torchsims.reporting._pictures import colour_map, picture_row, png, predictions
    from torchsims.reporting._predictions import output_names, prediction_report

__all__ = [
    "Advance",
    "Column",
    "Failure",
    "Progress",
    "Report",
    "Row",
    "RunState",
    "RunStatus",
    "ShowStatus",
    "Starved",
    "check_output_dir",
    "colour_map",
    "comparison_report",
    "delta_b_by_label",
    "delta_bars",
    "file_name",
    "heat_maps",
    "live_table",
    "markdown",
    "metric_against",
    "output_names",
    "paired_change",
    "picture_row",
    "png",
    "prediction_report",
    "predictions",
    "run_columns",
    "run_report",
    "runs_table",
    "show_progress",
    "summary_table",
    "training_curves",
    "validation_curves",
    "weight_curves",
    "worst_shortfalls",
    "write_report",
]

_HOMES = {
    "_bars": ("delta_bars", "heat_maps", "metric_against", "paired_change"),
    "_comparison": ("comparison_report", "delta_b_by_label", "run_report", "worst_shortfalls"),
    "_curves": ("training_curves", "validation_curves", "weight_curves"),
    "_pictures": ("colour_map", "picture_row", "png", "predictions"),
    "_predictions": ("output_names", "prediction_report"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"torchsims.reporting.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
