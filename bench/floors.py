"""Print the QM9 row of the map of floors in docs/preferences.md.

    python bench/floors.py qm9_14k_feats.npz

11 targets in native units, 545 features; 4000 molecules to train on, 4000 others to test on, 15 epochs. Mean test R2.
"""

import argparse
from pathlib import Path

import numpy as np

from real_tables import QM9
from torchsims.sklearn import MultiTaskEstimator

ROWS, SEEDS = 4000, (0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    file = np.load(parser.parse_args().file)
    x = np.concatenate([np.unpackbits(file["fp_packed"], axis=1), file["desc"]], axis=1)
    y = file["y"][:, [list(file["targets"]).index(name) for name in QM9]]
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:ROWS], order[ROWS : 2 * ROWS]
    floors = [f"{name}:floor={kappa}" for name in ("sims", "logmerit") for kappa in (0.0, 0.03, 0.1, 0.3)]
    for method in ("ew", *floors):
        scores = [
            MultiTaskEstimator(method, hidden=(128, 128), epochs=15, random_state=seed)
            .fit(x[train], y[train])
            .score(x[test], y[test])
            for seed in SEEDS
        ]
        print(f"{method} {np.mean(scores):.4f} ({', '.join(f'{score:.4f}' for score in scores)})", flush=True)


if __name__ == "__main__":
    main()
