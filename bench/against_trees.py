"""Shared networks beside gradient boosting, one model per target, on tables with several targets.

    OMP_NUM_THREADS=1 nice -n 10 python bench/against_trees.py FOLDER OUT [--tables digits,qm9] [--seeds 5]

FOLDER holds `qm9_14k`, `tox21` and `hillstrom`. The other tables come with scikit-learn, whose one table with several
targets has 20 rows, so that columns of three others are taken as targets. Seed s is the seed of the split (80 % to
train, 10 % to validate, 10 % to test) and of everything random; a split is the same for all. Networks report the epoch
that is best on the validation rows, trees stop after 20 rounds without improvement on them. Nothing else was tuned.
A line of OUT/results.jsonl is one fit; fits that are there are not repeated. Prints a table per data set.

HistGradientBoosting is scikit-learn's; LightGBM takes part where it is installed (`pip install lightgbm`).
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pyarrow import Table as ArrowTable
from pyarrow import parquet
from sklearn.datasets import (  # type: ignore[import-untyped]
    load_breast_cancer,
    load_diabetes,
    load_digits,
)
from sklearn.ensemble import (  # type: ignore[import-untyped]
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from real_tables import qm9, tox21
from torchsims.data.tables import Features, Target, is_missing, read_table, split_rows
from torchsims.metrics import Classification, Regression
from torchsims.training import Metrics, complete_config, train

METHODS = ("ew", "logmerit", "sims", "famo", "gls", "stch:normalize=yes")
ROUNDS, PATIENCE = 300, 20  # of boosting
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Data:
    """Columns by name, which of them are targets, and how a network is trained."""

    columns: Columns
    targets: tuple[str, ...]
    types: tuple[str, ...]
    epochs: int
    batch: int


def small(features: Columns, targets: Columns, classes: tuple[str, ...] = ()) -> Data:
    kinds = tuple("class" if name in classes else "number" for name in targets)
    return Data({**features, **targets}, tuple(targets), kinds, epochs=40, batch=32)


def breast_cancer() -> Data:
    """Diagnosis and the ten worst values, from the ten means."""
    found = load_breast_cancer()
    columns = dict(zip(found.feature_names, found.data.T, strict=True))
    features = {name: column for name, column in columns.items() if name.startswith("mean")}
    worst = {name: column for name, column in columns.items() if name.startswith("worst")}
    return small(features, {"diagnosis": found.target.astype(float), **worst}, ("diagnosis",))


def diabetes() -> Data:
    """Progression and six blood serum measurements, from age, sex, body mass index and blood pressure."""
    found = load_diabetes(scaled=False)
    columns = dict(zip(found.feature_names, found.data.T, strict=True))
    features = {name: columns[name] for name in ("age", "sex", "bmi", "bp")}
    return small(features, {"progression": found.target, **{f"s{i}": columns[f"s{i}"] for i in range(1, 7)}})


def digits() -> Data:
    """The digit and the ink in the four quarters of the lower half, from the pixels of the upper half."""
    found = load_digits()
    upper, lower = found.images[:, :4].reshape(-1, 32), found.images[:, 4:]
    ink = {
        f"ink{2 * i + j}": lower[:, 2 * i : 2 * i + 2, 4 * j : 4 * j + 4].sum((1, 2)) for i in (0, 1) for j in (0, 1)
    }
    features = {f"pixel{i}": column for i, column in enumerate(upper.T)}
    return small(features, {"digit": found.target.astype(float), **ink}, ("digit",))


def real(folder: Path) -> dict[str, Callable[[], Data]]:
    def qm9_data() -> Data:
        features, targets = qm9(folder / "qm9_14k" / "qm9_14k_feats.npz", 1.0)
        return Data({**features, **targets}, tuple(targets), ("number",) * len(targets), epochs=30, batch=128)

    def tox21_data() -> Data:
        features, targets = tox21(folder / "tox21" / "tox21_ecfp4_1024.npz")
        return Data({**features, **targets}, tuple(targets), ("class",) * len(targets), epochs=10, batch=128)

    def hillstrom() -> Data:
        columns = read_table(folder / "hillstrom" / "hillstrom.csv.gz")
        return Data(columns, ("visit", "conversion", "spend"), ("class", "class", "number"), epochs=10, batch=1024)

    return {"qm9": qm9_data, "tox21": tox21_data, "hillstrom": hillstrom}


def network(data: Data, file: Path, method: str, seed: int) -> Metrics:
    """Return the metrics of a shared network at its best epoch, as `torchsims train --select best` has them."""
    given: dict[str, Any] = {
        "data": f"table:split_seed={seed}",
        "root": str(file),
        "tasks": data.targets,
        "types": data.types,
    }
    given |= {"method": method, "seed": seed, "epochs": data.epochs, "batch": data.batch, "select": "best"}
    with tempfile.TemporaryDirectory() as folder:
        return train(complete_config(given), Path(folder) / "run").metrics


def trees(data: Data, make: Callable[..., Any], seed: int) -> Metrics:
    """Return the metrics of one model per target; a row without a label is no row of its target."""
    names = [name for name in data.columns if name not in data.targets]
    texts = [data.columns[name].dtype == object for name in names]
    x = np.stack([_codes(data.columns[name]) for name in names], 1)
    split, found = split_rows(len(x), seed), {}
    for name, kind in zip(data.targets, data.types, strict=True):
        column = data.columns[name]
        known = {part: rows[~is_missing(column[rows])] for part, rows in split.items()}
        target = Target.fit(name, column[known["train"]], kind)  # type: ignore[arg-type]
        y = column if kind == "number" else target.encode(column)
        known = {part: rows[y[rows] >= 0] if kind == "class" else rows for part, rows in known.items()}
        model = make(kind, x, y, known, np.array(texts), seed)
        right = torch.from_numpy(target.encode(column[known["test"]]))
        if kind == "number":
            metric: Regression | Classification = Regression(target.sd)
            scores = (model.predict(x[known["test"]]) - target.mean) / target.sd
        else:
            metric = Classification(len(target.classes or ()))
            odds = model.predict_proba(x[known["test"]])
            scores = odds if odds.shape[1] > 2 else odds[:, 1] - 0.5  # positive means the second class
        metric.update(torch.from_numpy(scores), right)
        found[name] = {key: float(value) for key, value in metric.compute().items()}
    return found


def _codes(column: NDArray[Any]) -> NDArray[np.float64]:
    if column.dtype != object:
        return column.astype(np.float64)
    codes = Features(numbers={}, categories={"": sorted(set(column[~is_missing(column)]))}).encode({"": column})[1]
    return codes[:, 0].astype(np.float64)


def hist_gradient_boosting(kind: str, x: Any, y: Any, rows: Any, texts: Any, seed: int) -> Any:
    make = HistGradientBoostingRegressor if kind == "number" else HistGradientBoostingClassifier
    model = make(
        max_iter=ROUNDS,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        categorical_features=texts if texts.any() else None,
        random_state=seed,
    )
    val = rows["val"]
    return model.fit(x[rows["train"]], y[rows["train"]], X_val=x[val], y_val=y[val])


def light_gbm(kind: str, x: Any, y: Any, rows: Any, texts: Any, seed: int) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping

    make = LGBMRegressor if kind == "number" else LGBMClassifier
    model = make(n_estimators=ROUNDS, n_jobs=1, random_state=seed, verbose=-1)
    return model.fit(
        x[rows["train"]],
        y[rows["train"]],
        eval_X=x[rows["val"]],
        eval_y=y[rows["val"]],
        categorical_feature=np.flatnonzero(texts).tolist() or "auto",
        callbacks=[early_stopping(PATIENCE, verbose=False)],
    )


def fits(data: Data, file: Path) -> dict[str, Callable[[int], Metrics]]:
    """Return what fits each model to a table, given a seed."""
    found: dict[str, Callable[[int], Metrics]] = {m: partial(network, data, file, m) for m in METHODS}
    found["HistGradientBoosting"] = partial(trees, data, hist_gradient_boosting)
    if find_spec("lightgbm"):
        found["LightGBM"] = partial(trees, data, light_gbm)
    return found


def describe(name: str, data: Data, results: list[dict[str, Any]]) -> None:
    """Print the means over seeds of every model; wins are targets on which it is above HistGradientBoosting."""
    rows, number = len(next(iter(data.columns.values()))), len(data.columns) - len(data.targets)
    first = {t: "r2" if kind == "number" else "auc" for t, kind in zip(data.targets, data.types, strict=True)}
    labels, kinds = list(dict.fromkeys(r["label"] for r in results)), list(dict.fromkeys(first.values()))

    def mean(label: str, target: str) -> float:
        return fmean(r["metrics"][target][first[target]] for r in results if r["label"] == label)

    print(f"\n{name}: {rows} rows, {number} features, {len(first)} targets\n")
    print(f"| model | {' | '.join(f'mean {k}' for k in kinds)} | targets above HGB | seconds |")
    print("|---" * (len(kinds) + 3) + "|")
    for label in labels:
        own = [r for r in results if r["label"] == label]
        means = [[fmean(v[k] for v in r["metrics"].values() if k in v) for r in own] for k in kinds]
        cells = [f"{fmean(v):.4f} ± {stdev(v) if len(v) > 1 else 0.0:.4f}" for v in means]
        wins = sum(mean(label, target) > mean("HistGradientBoosting", target) for target in first)
        print(f"| {label} | {' | '.join(cells)} | {wins} | {fmean(r['seconds'] for r in own):.1f} |")
    print(f"\n| target | {' | '.join(labels)} |\n" + "|---" * (len(labels) + 1) + "|")
    for target, kind in first.items():
        print(f"| {target}, {kind} | {' | '.join(f'{mean(label, target):.3f}' for label in labels)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", default="qm9,tox21,hillstrom,breast_cancer,diabetes,digits")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources = {"breast_cancer": breast_cancer, "diabetes": diabetes, "digits": digits, **real(options.folder)}
    tables = {name: sources[name]() for name in options.tables.split(",")}
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.jsonl"
    path.touch()
    for name, data in tables.items():
        parquet.write_table(ArrowTable.from_pydict(data.columns), options.out / f"{name}.parquet")
    for seed, (name, data) in product(range(options.seeds), tables.items()):
        for label, fit in fits(data, options.out / f"{name}.parquet").items():
            fit_once(path, name, label, seed, fit)
    results = [json.loads(line) for line in path.read_text().splitlines()]
    for name, data in tables.items():
        describe(name, data, [r for r in results if r["table"] == name and r["seed"] < options.seeds])


def fit_once(path: Path, name: str, label: str, seed: int, fit: Callable[[int], Any]) -> None:
    """Fit and add a line to the results, unless it is there."""
    stored = map(json.loads, path.read_text().splitlines())
    if any((r["table"], r["label"], r["seed"]) == (name, label, seed) for r in stored):
        return
    begin = time.process_time()
    result = {"table": name, "label": label, "seed": seed, "metrics": fit(seed)}
    with path.open("a") as file:
        file.write(json.dumps(result | {"seconds": time.process_time() - begin}) + "\n")


if __name__ == "__main__":
    main()
