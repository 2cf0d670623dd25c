"""Write the real tables of docs/results.md as Parquet files, from the arrays that they are published as.

    python bench/real_tables.py qm9 qm9_14k_feats.npz qm9.parquet
    python bench/real_tables.py qm9 qm9_14k_feats.npz qm9_ev.parquet --energies 27.211386
    python bench/real_tables.py tox21 tox21_ecfp4_1024.npz tox21.parquet

QM9: 512 bits of a Morgan fingerprint and 33 descriptors; 11 targets, of which the seven energies, in Hartree, can be
multiplied. Tox21: 1024 bits; 12 assays, NaN where missing. Prints the names of the targets, as `--targets` takes them.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyarrow import Table, parquet

QM9 = ("mu", "alpha", "homo", "lumo", "r2", "zpve", "u0", "u298", "h298", "g298", "cv")
ENERGIES = ("homo", "lumo", "zpve", "u0", "u298", "h298", "g298")

Columns = dict[str, NDArray[np.generic]]


def qm9(path: Path, energies: float) -> tuple[Columns, Columns]:
    """Return the features and the targets of QM9, the energies times a factor."""
    file = np.load(path)
    features = _bits(file["fp_packed"]) | dict(zip(map(str, file["desc_names"]), file["desc"].T, strict=True))
    places = {name: list(file["targets"]).index(name) for name in QM9}
    factors = {name: energies if name in ENERGIES else 1.0 for name in QM9}
    return features, {name: factors[name] * file["y"][:, place] for name, place in places.items()}


def tox21(path: Path) -> tuple[Columns, Columns]:
    """Return the features and the assays of Tox21."""
    file = np.load(path)
    assays = zip(map(str, file["tasks"]), file["y"].T, strict=True)
    return _bits(file["x_packed"]), {name: np.where(column < 0, np.nan, column) for name, column in assays}


def _bits(packed: NDArray[np.uint8]) -> Columns:
    return {f"bit{i}": column for i, column in enumerate(np.unpackbits(packed, axis=1).T)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=("qm9", "tox21"))
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--energies", type=float, default=1.0, help="factor of the energies of QM9")
    options = parser.parse_args()
    features, targets = qm9(options.file, options.energies) if options.data == "qm9" else tox21(options.file)
    parquet.write_table(Table.from_pydict(features | targets), options.out)
    print(",".join(targets))


if __name__ == "__main__":
    main()
