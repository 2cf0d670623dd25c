"""The extra `tables`: a CSV file becomes columns."""

import tempfile
from pathlib import Path

from torchsims.data.tables import read_table


def main() -> None:
    """Read a table with a missing value."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "houses.csv"
        path.write_text("rooms,town,price\n3,Rome,200000\n2,Oslo,\n")
        assert read_table(path)["town"].tolist() == ["Rome", "Oslo"]


if __name__ == "__main__":
    main()
