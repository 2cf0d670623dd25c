"""The time of weights alone: from a Gramian, without a model, beside TorchJD's on the same Gramian.

    OMP_NUM_THREADS=1 python bench/weightings.py [--rounds 7] [--tasks 2 8 32 128]

`make bench` writes the table into `bench/AGGREGATED.md`. One thread; some seconds.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import torch
import torchjd.aggregation as jd
from torch import Tensor

from steps import Ratios, machine, row, rule
from torchsims import aggregations
from torchsims.aggregations import WeightedAggregation

TASKS = (2, 8, 32, 128)
COLUMNS = 2000
# TorchJD's weightings with our defaults; only those of ours that are not TorchJD's own.
TORCHJD: dict[str, Callable[[int], Callable[[Tensor], Tensor]]] = {
    "CAGrad": lambda tasks: jd.CAGradWeighting(c=0.5),
    "FairGrad": lambda tasks: jd.FairGradWeighting(alpha=1.0),
    "MGDA": lambda tasks: jd.MGDAWeighting(),
    "UPGrad": lambda tasks: jd.UPGradWeighting(),
}


def gramian_of(tasks: int, seed: int) -> Tensor:
    """Return the inner products of random gradients, half of which conflict."""
    g = torch.randn(tasks, COLUMNS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return g @ g.T


def seconds(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def times(name: str, tasks: int, rounds: int) -> tuple[float, Ratios | None]:
    """Return the seconds of ours, the median, and their multiples of TorchJD's."""
    method: WeightedAggregation = getattr(aggregations, name)()
    theirs = TORCHJD[name](tasks) if name in TORCHJD else None
    ones, labelled = torch.ones(tasks), torch.ones(tasks, dtype=torch.bool)
    found: list[tuple[float, float]] = []
    for seed in range(rounds + 1):  # the first one is a warm-up
        gramian = gramian_of(tasks, seed)
        mine = seconds(lambda gramian=gramian: method.weights(gramian, ones, labelled))  # type: ignore[misc]
        found.append((mine, seconds(lambda gramian=gramian: theirs(gramian)) if theirs else 1.0))  # type: ignore[misc]
    typical = sorted(mine for mine, _ in found[1:])[rounds // 2]
    return typical, Ratios.of([mine / other for mine, other in found[1:]]) if theirs else None


def table(rounds: int, counts: tuple[int, ...] = TASKS) -> Iterator[str]:
    yield row("", *(f"{n} tasks: {what}" for n in counts for what in ("ms", "/ TorchJD")))
    yield rule(1 + 2 * len(counts))
    for name in sorted(aggregations.__all__):
        kind = getattr(aggregations, name)
        if isinstance(kind, type) and issubclass(kind, WeightedAggregation) and kind is not WeightedAggregation:
            if name == "GradNorm":  # has a parameter per task, and no weights of the Gramian alone
                continue
            cells = []
            for n in counts:
                typical, ratios = times(name, n, rounds)
                cells += [f"*{1e3 * typical:.2f}*", "" if ratios is None else str(ratios)]
            yield row(name, *cells)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the weights of gradient-level methods.")
    parser.add_argument("--rounds", type=int, default=7, help="how many Gramians each is measured on")
    parser.add_argument("--tasks", type=int, nargs="+", default=list(TASKS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)  # of TorchJD's solvers
    print(machine(), *table(arguments.rounds, tuple(arguments.tasks)), sep="\n")


if __name__ == "__main__":
    main()
