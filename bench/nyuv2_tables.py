"""Print the tables of the NYUv2 result in docs/results.md, from the results that `bench/nyuv2.py` keeps.

    python bench/nyuv2_tables.py

Means over seeds and sample standard deviations, on the 654 test images after the last epoch. Delta_b is relative to the
mean of HPS with equal weights, as in the paper. Minutes are those of the clock, whatever else the machine did; of a run
that was resumed, those since then.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from torchsims.metrics import delta_b

KEPT = Path(__file__).parent.parent / "docs" / "results" / "nyuv2"
COLUMNS = {
    "mIoU ↑": ("seg", "miou", 3),
    "pixel acc. ↑": ("seg", "pixel_accuracy", 3),
    "depth, m ↓": ("depth", "abs_err", 3),
    "relative ↓": ("depth", "rel_err", 3),
    "normals, degrees ↓": ("normals", "mean", 1),
    "median ↓": ("normals", "median", 1),
    "within 11.25 ↑": ("normals", "within_11.25", 3),
}
SCALED = "_depthx100"

Results = Mapping[str, Any]


def read(part: str) -> dict[str, list[Results]]:
    """Return the results of all seeds, by the name of the run without its seed."""
    found: dict[str, list[Results]] = defaultdict(list)
    for path in sorted((KEPT / part).glob("*.json")):
        found[path.stem.partition("_seed=")[0]].append(json.loads(path.read_text()))
    return dict(found)


def spread(values: Sequence[float], digits: int) -> str:
    """Return mean and sample standard deviation."""
    text = f"{fmean(values):.{digits}f}"
    return f"{text} ± {stdev(values):.{digits}f}" if len(values) > 1 else text


def mean_metrics(runs: Sequence[Results]) -> dict[str, dict[str, float]]:
    """Return the means over seeds, by task and metric."""
    metrics = [run["run"]["metrics"] for run in runs]
    return {task: {k: fmean(each[task][k] for each in metrics) for k in of} for task, of in metrics[0].items()}


def gains(runs: Sequence[Results], baseline: Sequence[Results]) -> list[float]:
    """Return Delta_b of every run relative to the mean of other runs."""
    base = mean_metrics(baseline)
    return [delta_b(run["run"]["metrics"], base, run["run"]["higher_is_better"]) for run in runs]


def print_table(title: str, rows: Mapping[str, Sequence[Results]], baseline: Sequence[Results]) -> None:
    """Print a table with one line per method or architecture."""
    print(f"\n{title}\n")
    print("| | seeds | Delta_b ↑ |", " | ".join(COLUMNS), "| minutes |")
    print("|---|---:|---:|" + "---:|" * (len(COLUMNS) + 1))
    for name, runs in rows.items():
        cells = [spread([run["run"]["metrics"][task][k] for run in runs], n) for task, k, n in COLUMNS.values()]
        minutes = fmean(sum(run["run"]["seconds"].values()) for run in runs) / 60
        print(f"| {name} | {len(runs)} | {spread(gains(runs, baseline), 3)} |", " | ".join(cells), f"| {minutes:.0f} |")


def print_units(methods: Mapping[str, Sequence[Results]], baseline: Sequence[Results]) -> None:
    """Print a table with one line per method: the losses as they are, and the depth loss times 100."""
    columns = {name: of for name, of in COLUMNS.items() if name in ("mIoU ↑", "depth, m ↓", "normals, degrees ↓")}
    print("\nMethods, HPS: as they are, and with the depth loss times 100\n")
    print("| method | passes | seeds | Delta_b ↑ | x 100 |", " | ".join(f"{name} | x 100" for name in columns), "|")
    print("|---|---|---|---:|---:|" + "---:|---:|" * len(columns))
    plain = {name: runs for name, runs in methods.items() if not name.endswith(SCALED)}
    for name, runs in sorted(plain.items(), key=lambda pair: -fmean(gains(pair[1], baseline))):
        label, passes = runs[0]["run"]["label"], runs[0]["run"]["passes"]
        both = [of for of in (runs, methods.get(name + SCALED)) if of]
        seeds = ", ".join(str(len(of)) for of in both)
        cells = [spread(gains(of, baseline), 3) for of in both]
        for task, metric, digits in columns.values():
            cells += [spread([run["run"]["metrics"][task][metric] for run in of], digits) for of in both]
        if len(both) == 1:  # not trained in the other unit
            cells = [cell for each in cells for cell in (each, "")]
        print(f"| {label} | {passes} | {seeds} |", " | ".join(cells), "|")


def print_validation(part: str) -> None:
    """Print the last values on the validation split: what was chosen by them."""
    print(f"\n{part}: validation split, last epoch; the score is the mean over tasks of ln(error)\n")
    print("| run | mIoU | depth, m | normals, degrees | score |\n|---|---:|---:|---:|---:|")
    for name, (run, *_) in read(part).items():
        history = run["run"]["history"]["validation"]
        last = [history[task][k][-1] for task, k in (("seg", "miou"), ("depth", "abs_err"), ("normals", "mean"))]
        score = fmean(map(log, (1 - last[0], *last[1:])))
        print(f"| {name} |", " | ".join(f"{value:.3f}" for value in (*last, score)), "|")


def main() -> None:
    for part in ("longer", "weights"):
        print_validation(part)
    architectures, methods = read("architectures"), read("methods")
    baseline = methods["ew"]
    print_units(methods, baseline)
    print_table("Methods, HPS", methods, baseline)
    print_table("Architectures, equal weights", {"hps": methods["ew"], **architectures}, baseline)
    for title, part in (("192 x 256", "larger"), ("32 epochs", "twice")):
        runs = read(part)
        print_table(title, runs, runs["ew"])


if __name__ == "__main__":
    main()
