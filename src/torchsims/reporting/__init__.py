"""What every command leaves behind: numbers as JSON, a table, figures and one self-contained page."""

from torchsims.reporting._progress import Progress, show_progress
from torchsims.reporting._report import Report, Row, check_out, write
from torchsims.reporting._tables import markdown

__all__ = ["Progress", "Report", "Row", "check_out", "markdown", "show_progress", "write"]
