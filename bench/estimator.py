"""The estimator on QM9 beside scikit-learn's perceptron of the same shape.

    OMP_NUM_THREADS=1 python bench/estimator.py FILE.npz
    OMP_NUM_THREADS=2 python bench/estimator.py FILE.npz

12 000 molecules, 545 features, 11 targets in native units, two hidden layers of 256, 30 epochs, batches of 128. Prints
seconds, R2 on the molecules left out, and the ratio of the times per epoch. scikit-learn's perceptron gets targets in
standard units, because it has no other way to weight them. With more threads than free cores it is far slower; the
estimator trains networks of this size with one thread, however many there are.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.metrics import r2_score  # type: ignore[import-untyped]
from sklearn.neural_network import MLPRegressor  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from torchsims.sklearn import MultiTaskEstimator

TARGETS = ("mu", "alpha", "homo", "lumo", "r2", "zpve", "u0", "u298", "h298", "g298", "cv")
TRAIN = 12_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--methods", default="ew,sims")
    options = parser.parse_args()
    file = np.load(options.file)
    x = np.concatenate([np.unpackbits(file["fp_packed"], axis=1), file["desc"]], axis=1).astype(np.float64)
    y = file["y"][:, [list(file["targets"]).index(target) for target in TARGETS]]
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:TRAIN], order[TRAIN:]

    scale = StandardScaler().fit(x[train])
    units = StandardScaler().fit(y[train])
    twin = MLPRegressor(
        hidden_layer_sizes=(256, 256),
        batch_size=128,
        max_iter=options.epochs,
        tol=0,
        n_iter_no_change=10**6,
        random_state=0,
    )
    begin = time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        twin.fit(scale.transform(x[train]), units.transform(y[train]))
    usual = (time.perf_counter() - begin) / options.epochs
    found = units.inverse_transform(twin.predict(scale.transform(x[test])))
    print(f"MLPRegressor: {usual * options.epochs:.1f} s, {usual:.2f} s per epoch, R2 {r2_score(y[test], found):.3f}")
    for method in options.methods.split(","):
        begin = time.perf_counter()
        model = MultiTaskEstimator(method, epochs=options.epochs, random_state=0).fit(x[train], y[train])
        seconds = time.perf_counter() - begin
        each = seconds / options.epochs
        print(
            f"{method}: {seconds:.1f} s, {each:.2f} s per epoch, {each / usual:.2f} of MLPRegressor's, "
            f"R2 {model.score(x[test], y[test]):.3f}"
        )


if __name__ == "__main__":
    main()
