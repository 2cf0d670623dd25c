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
from collections.abc import Callable
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
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        usual = _measure(lambda: twin.fit(scale.transform(x[train]), units.transform(y[train])), options.epochs)
    found = units.inverse_transform(twin.predict(scale.transform(x[test])))
    print(f"MLPRegressor: {usual[0]:.2f} s per epoch, {usual[1]:.2f} s of processor, R2 {r2_score(y[test], found):.3f}")
    for method in options.methods.split(","):
        model = MultiTaskEstimator(method, epochs=options.epochs, random_state=0)
        here = _measure(lambda model=model: model.fit(x[train], y[train]), options.epochs)  # type: ignore[misc]
        print(
            f"{method}: {here[0]:.2f} s per epoch, {here[1]:.2f} s of processor, {here[0] / usual[0]:.2f} and "
            f"{here[1] / usual[1]:.2f} of MLPRegressor's, R2 {model.score(x[test], y[test]):.3f}"
        )


def _measure(work: Callable[[], object], epochs: int) -> tuple[float, float]:
    """Return seconds per epoch by the clock and of the processor, which other programs hardly change."""
    begin = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - begin[0]) / epochs, (time.process_time() - begin[1]) / epochs


if __name__ == "__main__":
    main()
