r"""Tables with several targets: CSV and Parquet files, numbers and categories, of which any may be missing.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from torchsims.data.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "houses.csv"
    ...     _ = path.write_text("rooms,town,price,sold\n3,Rome,200000,yes\n2,Oslo,,no\n4,Rome,350000,yes\n")
    ...     table = read_table(path)
    >>> table["price"].tolist(), table["town"].tolist()
    ([200000.0, nan, 350000.0], ['Rome', 'Oslo', 'Rome'])
"""

from torchsims.data.tables._features import Features, is_missing
from torchsims.data.tables._files import ENDINGS, read_frame, read_table, split_rows
from torchsims.data.tables._format import Format
from torchsims.data.tables._summary import ColumnSummary, is_identifier, summarize
from torchsims.data.tables._targets import Kind, Target

__all__ = [
    "ENDINGS",
    "ColumnSummary",
    "Features",
    "Format",
    "Kind",
    "Target",
    "is_identifier",
    "is_missing",
    "read_frame",
    "read_table",
    "split_rows",
    "summarize",
]
