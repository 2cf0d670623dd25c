"""A small table with numbers, categories, missing values and targets of both kinds."""

from pathlib import Path

TABLE = "x,town,weight,kind,sold\n" + "".join(
    f"{i % 17},{'abc'[i % 3]}{'' if i % 7 else 'z'},{0.5 * (i % 17) + i % 3 if i % 5 else ''},{'uvw'[i % 3]},{i % 2}\n"
    for i in range(240)
)


def write_table(folder: Path, text: str = TABLE, name: str = "table.csv") -> Path:
    """Write a table and return its path."""
    (folder / name).write_text(text)
    return folder / name
