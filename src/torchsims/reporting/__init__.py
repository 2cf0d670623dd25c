"""What every command leaves behind: numbers as JSON, tables, figures and one self-contained page."""

from torchsims.reporting._columns import Column, Row
from torchsims.reporting._live import ShowRows, live_table
from torchsims.reporting._progress import Advance, Progress, show_progress
from torchsims.reporting._report import Report, check_out, write
from torchsims.reporting._runs import History, Run, run_columns, runs_table, table
from torchsims.reporting._tables import markdown

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
    "live_table",
    "markdown",
    "run_columns",
    "runs_table",
    "show_progress",
    "table",
    "write",
]
