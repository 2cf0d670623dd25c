"""Step time and peak memory of gradient-level methods against the number of tasks, with TorchJD itself beside them.

    OMP_NUM_THREADS=1 python bench/aggregated.py [--rounds 5] [--tasks 2 8 32] [--methods MGDA PCGrad] [--out FILE]

Writes `bench/AGGREGATED.md`. One thread, that of numpy's matrices too, about three minutes.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from os import getloadavg
from pathlib import Path
from typing import Any, final

import torch
import torchjd.aggregation as jd
from torchjd.autojac import jac_to_grad, mtl_backward

import weightings
from steps import (
    OUTER,
    PEAK_STEPS,
    Batch,
    Net,
    PeakBytes,
    Ratios,
    Setting,
    Step,
    by_hand,
    cnn,
    machine,
    row,
    rule,
    scalarized,
    two_copies,
)
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
OURS, PARALLEL, LOOP, BETTER = "ours", "TorchJD", "TorchJD, one task at a time", "ours / better"


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


def measure(each: Row, tasks: int, rounds: int) -> dict[str, Ratios]:
    """Return the multiples of a step by hand, each measured right after one, in turn, and ours of the better other."""
    hand = by_hand(*CNN.make(tasks))
    steps = {OURS: each.make(*CNN.make(tasks))} | {k: make(*CNN.make(tasks)) for k, make in each.others.items()}
    for step in (hand, *steps.values()):
        for _ in range(WARMUP):
            step()
    ratios: dict[str, list[float]] = {label: [] for label in steps}
    for _ in range(rounds):
        for label, step in steps.items():
            before = seconds(hand)
            ratios[label].append(seconds(step) / before)
    found = {label: Ratios.of(values) for label, values in ratios.items()}
    if not each.others:
        return found
    better = min(each.others, key=lambda label: found[label].median)
    return found | {BETTER: Ratios.of([a / b for a, b in zip(ratios[OURS], ratios[better], strict=True)])}


def peaks(each: Row, tasks: int) -> dict[str, str]:
    """Return peak memory as multiples of that of a step by hand."""
    base = peak(by_hand, tasks)
    found = {label: peak(make, tasks) / base for label, make in {OURS: each.make, **each.others}.items()}
    if each.others:
        found[BETTER] = found[OURS] / min(found[label] for label in each.others)
    return {label: f"{value:.3f}" for label, value in found.items()}


def peak(make: Callable[[Net, Batch], Step], tasks: int) -> int:
    counter = PeakBytes()
    with counter:
        step = make(*CNN.make(tasks))
        for _ in range(PEAK_STEPS):
            step()
    return counter.peak


def table(measured: dict[str, dict[int, dict[str, Any]]], counts: list[int]) -> Iterator[str]:
    """Yield one row per method: ours, TorchJD's, and ours divided by the better of TorchJD's two."""
    columns = (OURS, PARALLEL, LOOP, BETTER)
    heads = [f"{n} tasks: {label}" for n in counts for label in columns]
    yield row("times a step by hand", *heads)
    yield rule(len(heads) + 1)
    for name, by_tasks in measured.items():
        yield row(name, *(str(by_tasks[n].get(label, "")) for n in counts for label in columns))
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure gradient-level methods beside TorchJD.")
    everything = sorted(set(aggregations.__all__) - {"Aggregation", "WeightedAggregation", "from_torchjd"})
    parser.add_argument("--rounds", type=int, default=5, help="how often each step is measured")
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--methods", nargs="+", default=everything, choices=everything)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("AGGREGATED.md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)  # of TorchJD's solvers
    load = getloadavg()[0]
    times: dict[str, dict[int, dict[str, Ratios]]] = {}
    memory: dict[str, dict[int, dict[str, str]]] = {}
    for name, each in rows(arguments.methods).items():
        times[name] = {tasks: measure(each, tasks, arguments.rounds) for tasks in arguments.tasks}
        memory[name] = {tasks: peaks(each, tasks) for tasks in arguments.tasks}
        print(name, *(f"{tasks}: {found[OURS]}" for tasks, found in times[name].items()), flush=True)
    lines = [
        "# Gradient-level methods: step time and peak memory",
        "",
        f"`make bench` writes it; this is `OMP_NUM_THREADS=1 python bench/aggregated.py --rounds {arguments.rounds}`, "
        f"on: {machine()}; "
        f"a load of {load:.0f} before it. The model: {CNN.title}.",
        "",
        "Multiples of a training step with equal weights written by hand, medians and quartiles of processor time on "
        "one thread, and bytes of all tensors alive at once. Beside ours, a loop with TorchJD's `mtl_backward` and "
        "`jac_to_grad` on the same model: with its default, all tasks in one batched pass, and with "
        "`parallel_chunk_size=1`. The last column compares with the better of the two. With held weights the memory "
        "is that of the one step that computes them.",
        "",
        "## Time",
        "",
        *table(times, arguments.tasks),
        "## Peak memory",
        "",
        *table(memory, arguments.tasks),
        "## Weights alone",
        "",
        "From the Gramian of random gradients, in double precision: milliseconds, and multiples of TorchJD's time for "
        "those that are not computed by it, except Nash-MTL, whose iterations TorchJD stops early.",
        "",
        *weightings.table(arguments.rounds),
    ]
    arguments.out.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
