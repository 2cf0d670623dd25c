"""What every command leaves behind: numbers as JSON, tables, figures and one self-contained page.

A :class:`Report` is the result of a command and :func:`write_report` writes its folder; :func:`run_report`,
:func:`comparison_report`, :func:`prediction_report` and :func:`diagnosis_report` make reports of runs, predictions and
diagnoses. What draws is imported when it is first used, so that a command can check its input before matplotlib is
loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchsims.reporting._progress import Advance, Progress, RunState, RunStatus, ShowStatus, live_table, show_progress
from torchsims.reporting._report import Report, check_output_dir, write_report
from torchsims.reporting._runs import last_epoch_runs, runs_table
from torchsims.reporting._tables import Column, Row, markdown

if TYPE_CHECKING:  # what `__getattr__` does, for readers and type checkers
    from torchsims.reporting._bars import heat_maps, metric_against
    from torchsims.reporting._comparison import comparison_report, run_report, worst_shortfalls
    from torchsims.reporting._diagnosis import diagnosis_report
    from torchsims.reporting._fronts import FrontPanel, plot_front
    from torchsims.reporting._predictions import output_names, prediction_report
    from torchsims.reporting._scores import Score, delta_b_by_label, score_runs
    from torchsims.reporting._training_bar import ProgressBar
    from torchsims.reporting._trials import trials_figure
    from torchsims.reporting._verdict import Verdict

__all__ = [
    "Advance",
    "Column",
    "FrontPanel",
    "Progress",
    "ProgressBar",
    "Report",
    "Row",
    "RunState",
    "RunStatus",
    "Score",
    "ShowStatus",
    "Verdict",
    "check_output_dir",
    "comparison_report",
    "delta_b_by_label",
    "diagnosis_report",
    "heat_maps",
    "last_epoch_runs",
    "live_table",
    "markdown",
    "metric_against",
    "output_names",
    "plot_front",
    "prediction_report",
    "run_report",
    "runs_table",
    "score_runs",
    "show_progress",
    "trials_figure",
    "worst_shortfalls",
    "write_report",
]

_HOMES = {
    "_bars": ("heat_maps", "metric_against"),
    "_comparison": ("comparison_report", "run_report", "worst_shortfalls"),
    "_diagnosis": ("diagnosis_report",),
    "_fronts": ("FrontPanel", "plot_front"),
    "_predictions": ("output_names", "prediction_report"),
    "_scores": ("Score", "delta_b_by_label", "score_runs"),
    "_training_bar": ("ProgressBar",),
    "_trials": ("trials_figure",),
    "_verdict": ("Verdict",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"torchsims.reporting.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
