"""Print the tables of the ranking in docs/results.md, from the metrics that `bench/ranking.py` keeps.

    python bench/ranking_tables.py [--figures docs]

On every data set a method has a mean rank: among all methods with the same seed, by the first metric of every task,
which epochs and trials are chosen by, averaged over tasks and seeds. Average ranks over data sets are compared by
Friedman's test and Nemenyi's critical difference, and with EW on each data set by a paired t test over seeds, with
Holm's correction over the methods. Methods that did not run on all data sets are left out of the averages: fewer
were trained on NYUv2, by `bench/nyuv2.py`, and the table with it has those only.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, rankdata, studentized_range, ttest_rel

from nyuv2 import TUNED

RESULTS = Path(__file__).parent.parent / "docs" / "results"
ALPHA = 0.05
BASELINE = "EW"
OURS = ("SIMS", "LogMerit")
FIXED = "fixed weights"  # without tuning they are EW
NAMES = {"FixedWeights": FIXED, "STCH, normalize yes": "STCH, normalized"}

Ranks = dict[str, dict[str, list[float]]]
"""Mean rank of every run, by data set and label, in the order of the seeds."""


@dataclass(frozen=True)
class Ranking:
    """Average ranks over data sets, best first, and how far apart two must be."""

    ranks: Mapping[str, float]
    data: int
    p_value: float
    critical: float


def read(kept: Path) -> list[dict[str, Any]]:
    """Return the runs of all methods on one data set, each with the label of its method without tuned options."""
    found: list[dict[str, Any]] = []
    for path in sorted(kept.glob("*.json")):
        runs = json.loads(path.read_text())["runs"]
        name = next(run["label"] for run in runs if not run["tuned"])
        found += [{**run, "name": NAMES.get(name, name)} for run in runs]
    return found


def read_nyuv2(kept: Path) -> list[dict[str, Any]]:
    """Return the runs of all methods with default options on NYUv2, with the losses as they are and with all seeds."""
    found: list[dict[str, Any]] = []
    for path in sorted(kept.glob("*.json")):
        values = json.loads(path.read_text())
        run, settings = values["run"], values["settings"]
        if not settings["rescale"] and settings["method"] != TUNED:
            name = NAMES.get(run["label"], run["label"])
            found.append({**run, "name": name, "tuned": False, "seed": settings["seed"]})
    seeds = Counter(run["name"] for run in found)
    return [run for run in found if seeds[run["name"]] == seeds[BASELINE]]


def rank(runs: Sequence[Mapping[str, Any]], tuned: bool) -> dict[str, list[float]]:
    """Return the mean rank of every run among the default or among the tuned ones of its seed, by method."""
    found: dict[str, list[float]] = defaultdict(list)
    for seed in sorted({run["seed"] for run in runs}):
        rivals = [run for run in runs if (run["seed"], run["tuned"]) == (seed, tuned)]
        higher: Mapping[str, Mapping[str, bool]] = next(
            (run["higher_is_better"] for run in rivals if run["failure"] is None), {}
        )
        by_task = [_ranks(rivals, task, *next(iter(names.items()))) for task, names in higher.items()]
        for run, value in zip(rivals, np.mean(by_task, axis=0) if rivals else (), strict=True):
            found[run["name"]].append(float(value))
    return dict(found)


def _ranks(rivals: Sequence[Mapping[str, Any]], task: str, name: str, higher_is_better: bool) -> NDArray[np.float64]:
    values = np.array([np.nan if run["failure"] else run["metrics"][task][name] for run in rivals], dtype=float)
    lower_is_better = np.nan_to_num(-values if higher_is_better else values, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return np.asarray(rankdata(lower_is_better))  # 1 is the best; NaN, as that of a run that failed, comes last


def average(ranks: Ranks) -> Ranking:
    r"""Return the average ranks of the methods that are on every data set, ranked anew among themselves.

    Nemenyi's critical difference of k methods on n data sets is q sqrt(k (k + 1) / (6 n)), where q is the quantile of
    the studentized range of k groups divided by sqrt(2).
    """
    common = set.intersection(*(set(of) for of in ranks.values()))
    methods = [name for name in next(iter(ranks.values())) if name in common]
    scores = np.array([[fmean(of[name]) for name in methods] for of in ranks.values()])  # (data, method)
    order = rankdata(scores, axis=1)
    k, n = len(methods), len(scores)
    q = studentized_range.ppf(1 - ALPHA, k, np.inf) / sqrt(2)
    means = dict(sorted(zip(methods, order.mean(axis=0).tolist(), strict=True), key=lambda pair: pair[1]))
    p_value = friedmanchisquare(*order.T).pvalue if n > 1 else 1.0
    return Ranking(means, n, float(p_value), float(q) * sqrt(k * (k + 1) / (6 * n)))


def against(of: Mapping[str, Sequence[float]], baseline: str = BASELINE) -> dict[str, str]:
    """Return "better" or "worse" for methods whose ranks differ from the baseline's, after Holm's correction."""
    others = [name for name in of if name != baseline and len(of[name]) == len(of[baseline])]
    tests = {name: ttest_rel(of[name], of[baseline]).pvalue for name in others}
    verdicts = dict.fromkeys(others, "")
    for place, name in enumerate(sorted(tests, key=lambda name: tests[name])):
        if not tests[name] * (len(tests) - place) <= ALPHA:  # NaN where both are always the same
            break
        verdicts[name] = "better" if fmean(of[name]) < fmean(of[baseline]) else "worse"
    return verdicts


def groups(ranking: Ranking) -> list[tuple[float, float]]:
    """Return the first and the last rank of every largest group whose members are not told apart."""
    ranks = list(ranking.ranks.values())
    spans = [(a, max(b for b in ranks if b - a <= ranking.critical)) for a in ranks]
    return [
        span for i, span in enumerate(spans) if span[0] < span[1] and all(span[1] > other[1] for other in spans[:i])
    ]


def diagram(title: str, ranking: Ranking) -> Figure:
    """Return a critical-difference diagram: a line spans methods that are not told apart."""
    names, ranks = list(ranking.ranks), list(ranking.ranks.values())
    figure = Figure(figsize=(4.8, 1.4 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.scatter(ranks, range(len(names)), s=25, c=["#d55e00" if name in OURS else "#0072b2" for name in names])
    for place, (low, high) in enumerate(groups(ranking)):
        axes.plot([low, high], [-1 - 0.5 * place] * 2, color="#000000", linewidth=2)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(f"average rank; critical difference {ranking.critical:.1f}")
    axes.set_title(f"{title}, {ranking.data} data sets")
    return figure


def print_ranks(title: str, ranks: Ranks) -> Ranking:
    """Print mean ranks by data set and their averages."""
    ranking = average(ranks)
    marks = {data: against(of) for data, of in ranks.items()}
    print(f"\n{title}: Friedman p = {ranking.p_value:.2g}, critical difference {ranking.critical:.1f}\n")
    print("| method | average rank |", " | ".join(ranks), "| better than EW | worse |")
    print("|---|---:|" + "---:|" * len(ranks) + "---:|---:|")
    for name, value in ranking.ranks.items():
        cells = [f"{fmean(of[name]):.1f}" for of in ranks.values()]
        found = [mark.get(name) for mark in marks.values()]
        print(f"| {name} | {value:.1f} |", " | ".join(cells), f"| {found.count('better')} | {found.count('worse')} |")
    return ranking


def first_metric(run: Mapping[str, Any]) -> float:
    """Return the mean over the tasks whose first metric is that of the first task; NaN if the run failed."""
    if run["failure"]:
        return nan
    firsts = {task: next(iter(names)) for task, names in run["higher_is_better"].items()}
    wanted = next(iter(firsts.values()))
    return fmean(run["metrics"][task][name] for task, name in firsts.items() if name == wanted)


def print_metrics(runs: Mapping[str, Sequence[Mapping[str, Any]]], order: Sequence[str]) -> None:
    """Print the first metric with default and with tuned options, as means and standard deviations over seeds."""
    print("\n| method |", " | ".join(f"{data} | {data}, tuned" for data in runs), "|")
    print("|---|" + "---:|" * 2 * len(runs))
    for name in order:
        found = [
            [first_metric(run) for run in of if (run["name"], run["tuned"]) == (name, tuned)]
            for of in runs.values()
            for tuned in (False, True)
        ]
        print(f"| {name} |", " | ".join(f"{fmean(v):.4f} ± {stdev(v):.4f}" if v else "" for v in found), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--figures", type=Path, help="folder for the critical-difference diagrams")
    options = parser.parse_args()
    runs = {kept.name: read(kept) for kept in sorted((RESULTS / "ranking").iterdir())}
    tuned = {data: of for data, of in runs.items() if any(run["tuned"] for run in of)}
    default_ranks = {data: rank([run for run in of if run["name"] != FIXED], tuned=False) for data, of in runs.items()}
    tuned_ranks = {data: rank(of, tuned=True) for data, of in tuned.items()}
    nyuv2_ranks = rank(read_nyuv2(RESULTS / "nyuv2" / "methods"), tuned=False)
    for file, title, ranks in (
        ("ranking.png", "Default options", default_ranks),
        ("ranking-tuned.png", "Tuned with 20 trials", tuned_ranks),
        ("ranking-nyuv2.png", "With NYUv2", {**default_ranks, "nyuv2": nyuv2_ranks}),
    ):
        ranking = print_ranks(title, ranks)
        if options.figures:
            diagram(title, ranking).savefig(options.figures / file, dpi=150)
    print_metrics(tuned, [*average(tuned_ranks).ranks])


if __name__ == "__main__":
    main()
