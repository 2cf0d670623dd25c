"""The estimator on QM9 beside scikit-learn's perceptron of the same shape.

    OMP_NUM_THREADS=1 python bench/estimator.py FILE.npz
    OMP_NUM_THREADS=2 python bench/estimator.py FILE.npz

12 000 molecules, 545 features, 11 targets in native units, two hidden layers of 256, 30 epochs, batches of 128. Prints
seconds, R2 on the molecules left out, and the ratio of the times per epoch, of the fastest of several rounds in which
all take turns. scikit-learn's perceptron gets targets in standard units, because it has no other way to weight them.
Reading and scaling the rows counts, a first fit of 256 rows does not: the first optimizer of a process makes torch
import its compiler, which takes a second.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import clone  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.metrics import r2_score  # type: ignore[import-untyped]
from sklearn.neural_network import MLPRegressor  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from torchsims.sklearn import MultiTaskEstimator

TARGETS = ("mu", "alpha", "homo", "lumo", "r2", "zpve", "u0", "u298", "h298", "g298", "cv")
TRAIN = 12_000
USUAL = "MLPRegressor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
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
    models = {
        name: MultiTaskEstimator(name, epochs=options.epochs, random_state=0) for name in options.methods.split(",")
    }
    fits: dict[str, Callable[[], object]] = {
        name: partial(model.fit, x[train], y[train]) for name, model in models.items()
    }
    fits = {USUAL: lambda: twin.fit(scale.transform(x[train]), units.transform(y[train])), **fits}
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        MultiTaskEstimator(epochs=1).fit(x[:256], y[:256])
        clone(twin).set_params(max_iter=1).fit(x[:256], y[:256])
        rounds = [{name: _measure(fit, options.epochs) for name, fit in fits.items()} for _ in range(options.rounds)]
    clock, processor = ({name: min(r[name][i] for r in rounds) for name in fits} for i in (0, 1))
    found = units.inverse_transform(twin.predict(scale.transform(x[test])))
    scores = {USUAL: r2_score(y[test], found), **{name: m.score(x[test], y[test]) for name, m in models.items()}}
    for name in fits:
        print(
            f"{name}: {clock[name]:.3f} s per epoch, {processor[name]:.3f} s of processor, "
            f"{clock[name] / clock[USUAL]:.2f} and {processor[name] / processor[USUAL]:.2f} of {USUAL}'s, "
            f"R2 {scores[name]:.3f}"
        )


def _measure(work: Callable[[], object], epochs: int) -> tuple[float, float]:
    """Return seconds per epoch by the clock and of the processor, which other programs hardly change."""
    begin = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - begin[0]) / epochs, (time.process_time() - begin[1]) / epochs


if __name__ == "__main__":
    main()
