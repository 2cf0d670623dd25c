"""A table with several targets: numbers in native units, a class, and missing values, from a CSV file.

    python examples/table.py    # needs the extras [tables] and [experiments]

The same on the command line: `torchsims train --csv houses.csv --targets price,days,sold --method sims`.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import torchsims
from torchsims.training import complete_config, train


def write_houses(path: Path, rows: int = 200) -> None:
    """Write a table with a price in euros, days until sale, and whether it was sold."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["area", "rooms", "city", "price", "days", "sold"])
        for area, rooms, city in zip(
            rng.uniform(20, 200, rows), rng.integers(1, 7, rows), rng.integers(0, 3, rows), strict=True
        ):
            price = round(2000 * area * (1 + city / 3))
            days = "" if rng.random() < 0.3 else round(30 + area / 4 + 10 * rng.normal(), 1)
            writer.writerow([round(area, 1), rooms, "ABC"[city], price, days, "yes" if area < 110 else "no"])


def main() -> None:
    """Train on the table, and predict two of its rows."""
    folder = Path(tempfile.mkdtemp())
    write_houses(folder / "houses.csv")
    config = complete_config(
        {
            "data": "table",
            "root": str(folder / "houses.csv"),
            "tasks": ("price", "days", "sold"),
            "method": "sims",
            "model": "mlp:hidden=32",
            "epochs": 20,
            "batch": 16,
            "lr": 0.01,
        }
    )
    run = train(config, folder / "run")
    for task, metrics in run.metrics.items():
        print(task, metrics)
    predicted = torchsims.load(folder / "run").predict(folder / "houses.csv")
    print({target: values[:2] for target, values in predicted.items()})


if __name__ == "__main__":
    main()
