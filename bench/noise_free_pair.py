"""Write the table of docs/preferences.md with one target that a network can fit to rounding, and one that is noisy.

    python bench/noise_free_pair.py pair.parquet

4000 rows of eight normal features. `exact` is x0 + x1 x2 / 2; `noisy` is 1000 (sin 2 x3 + x0 x4 + a standard normal).
"""

import argparse
from pathlib import Path

import numpy as np
from pyarrow import Table, parquet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 8))
    targets = {
        "exact": x[:, 0] + 0.5 * x[:, 1] * x[:, 2],
        "noisy": 1000 * (np.sin(2 * x[:, 3]) + x[:, 4] * x[:, 0] + rng.normal(size=len(x))),
    }
    parquet.write_table(
        Table.from_pydict({f"x{i}": column for i, column in enumerate(x.T)} | targets), parser.parse_args().out
    )


if __name__ == "__main__":
    main()
