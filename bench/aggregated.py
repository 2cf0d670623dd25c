"""Step time and peak memory of gradient-level methods against the number of tasks, with TorchJD itself beside them.

    python bench/aggregated.py [--rounds 7] [--tasks 2 8 32] [--methods MGDA PCGrad] [--out bench/AGGREGATED.md]

Writes `bench/AGGREGATED.md`. One thread; about five minutes with seven rounds on idle cores.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, final

import torch
import torchjd.aggregation as jd
from torchjd.autojac import jac_to_grad, mtl_backward

from steps import OUTER, Batch, Net, PeakBytes, Setting, Step, by_hand, cnn, machine, row, rule, scalarized, two_copies
from torchsims import Aggregated, aggregations
from torchsims.scalarizations import LogMerit

CNN = Setting(
    "CNN",
    "three convolutions with batch norm on 8 images of 32 x 32, one 1 x 1 convolution per task",
    cnn,
    (8, 3, 32, 32),
    (8, 1, 16, 16),
)
WARMUP = 2

# TorchJD's aggregators with our defaults; what is not here has no counterpart.
TORCHJD: dict[str, Callable[[int], Any]] = {
    "AlignedMTL": lambda tasks: jd.AlignedMTL(),
    "CAGrad": lambda tasks: jd.CAGrad(c=0.5),
    "ConFIG": lambda tasks: jd.ConFIG(),
    "FairGrad": lambda tasks: jd.FairGrad(alpha=1.0),
    "GradDrop": lambda tasks: jd.GradDrop(),
    "GradVac": lambda tasks: jd.GradVac(),
    "IMTLG": lambda tasks: jd.IMTLG(),
    "MGDA": lambda tasks: jd.MGDA(),
    "NashMTL": lambda tasks: jd.NashMTL(n_tasks=tasks),
    "PCGrad": lambda tasks: jd.PCGrad(),
    "UPGrad": lambda tasks: jd.UPGrad(),
}
PARALLEL, LOOP = "TorchJD", "TorchJD, one task at a time"


def ours(model: Net, batch: Batch, name: str, **options: Any) -> Step:
    kind = getattr(aggregations, name)
    made = kind([f"task{i}" for i in range(model.tasks)]) if name == "GradNorm" else kind()
    method = Aggregated(model, made, outer=OUTER, **options)
    return partial(method.step, task_losses, batch)


def task_losses(model: Net, batch: Batch) -> dict[str, torch.Tensor]:
    x, targets = batch
    return {f"task{i}": (y - t).square().mean() for i, (y, t) in enumerate(zip(model(x), targets, strict=True))}


def theirs(model: Net, batch: Batch, name: str, chunk: int | None) -> Step:
    """Return a step of a loop written with TorchJD as its documentation shows."""
    optimizer = OUTER([p for p in model.parameters() if p.requires_grad])
    aggregator, shared = TORCHJD[name](model.tasks), list(model.encoder.parameters())
    x, targets = batch

    def step() -> None:
        features = model.encoder(x)
        outputs = [head(features) for head in model.heads]
        losses = [(y - t).square().mean() for y, t in zip(outputs, targets, strict=True)]
        mtl_backward(losses, features=features, parallel_chunk_size=chunk)
        jac_to_grad(shared, aggregator)
        optimizer.step()
        optimizer.zero_grad()

    return step


@final
@dataclass(frozen=True)
class Row:
    """A method: how to make a step of ours, and of TorchJD's, if it has one."""

    make: Callable[[Net, Batch], Step]
    others: dict[str, Callable[[Net, Batch], Step]]


def rows(names: list[str]) -> dict[str, Row]:
    result = {
        "LogMerit": Row(partial(scalarized, kind=LogMerit), {}),
        "SIMS, sequential": Row(two_copies, {}),
    }
    for name in names:
        kinds = ((PARALLEL, None), (LOOP, 1)) if name in TORCHJD else ()
        result[name] = Row(partial(ours, name=name), {k: partial(theirs, name=name, chunk=c) for k, c in kinds})
    if "MGDA" in names:
        at = partial(ours, name="MGDA", shared="representation", features="encoder")
        result["MGDA at the representation"] = Row(at, {})
        # The first step of the warm-up computes the weights; those that are measured hold them.
        result["MGDA, a step with held weights"] = Row(partial(ours, name="MGDA", every=10**9), {})
    return result


def seconds(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def measure(each: Row, tasks: int, rounds: int) -> dict[str, float]:
    """Return the median multiples of a step by hand, each measured right after one, in turn."""
    hand = by_hand(*CNN.make(tasks))
    steps = {"ours": each.make(*CNN.make(tasks))} | {k: make(*CNN.make(tasks)) for k, make in each.others.items()}
    for step in (hand, *steps.values()):
        for _ in range(WARMUP):
            step()
    ratios: dict[str, list[float]] = {label: [] for label in steps}
    for _ in range(rounds):
        for label, step in steps.items():
            before = seconds(hand)
            ratios[label].append(seconds(step) / before)
    return {label: median(values) for label, values in ratios.items()}


def peak(make: Callable[[Net, Batch], Step], tasks: int) -> int:
    counter = PeakBytes()
    with counter:
        step = make(*CNN.make(tasks))
        for _ in range(WARMUP):
            step()
    return counter.peak


def table(measured: dict[str, dict[int, dict[str, float]]], counts: list[int], digits: int) -> Iterator[str]:
    """Yield one row per method: ours, TorchJD's, and ours divided by the better of TorchJD's two."""
    heads = [f"{n} tasks: {label}" for n in counts for label in ("ours", PARALLEL, LOOP, "ours / better")]
    yield row("times a step by hand", *heads)
    yield rule(len(heads) + 1)
    for name, by_tasks in measured.items():
        cells = []
        for n in counts:
            found = by_tasks[n]
            cells += [f"{found[label]:.{digits}f}" if label in found else "" for label in ("ours", PARALLEL, LOOP)]
            better = min((found[label] for label in (PARALLEL, LOOP) if label in found), default=None)
            cells.append("" if better is None else f"{found['ours'] / better:.2f}")
        yield row(name, *cells)
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure gradient-level methods beside TorchJD.")
    everything = sorted(set(aggregations.__all__) - {"Aggregation", "WeightedAggregation", "from_torchjd"})
    parser.add_argument("--rounds", type=int, default=7, help="how often each step is measured")
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--methods", nargs="+", default=everything, choices=everything)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("AGGREGATED.md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)  # of TorchJD's solvers
    times: dict[str, dict[int, dict[str, float]]] = {}
    memory: dict[str, dict[int, dict[str, float]]] = {}
    for name, each in rows(arguments.methods).items():
        times[name], memory[name] = {}, {}
        for tasks in arguments.tasks:
            times[name][tasks] = measure(each, tasks, arguments.rounds)
            base = peak(by_hand, tasks)
            makes = {"ours": each.make, **each.others}
            memory[name][tasks] = {label: peak(make, tasks) / base for label, make in makes.items()}
            print(name, tasks, {k: round(v, 2) for k, v in times[name][tasks].items()}, flush=True)
    lines = [
        "# Gradient-level methods: step time and peak memory",
        "",
        f"`python bench/aggregated.py --rounds {arguments.rounds}`, on: {machine()}. The model: {CNN.title}.",
        "",
        "Multiples of a training step with equal weights written by hand. Beside ours, a loop with TorchJD's "
        "`mtl_backward` and `jac_to_grad` on the same model: with its default, all tasks in one batched pass, and with "
        "`parallel_chunk_size=1`. The last column compares with the better of the two.",
        "",
        "## Time",
        "",
        *table(times, arguments.tasks, 2),
        "## Peak memory",
        "",
        *table(memory, arguments.tasks, 3),
    ]
    arguments.out.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
