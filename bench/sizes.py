"""The time of small and of larger steps beside one by hand, with copies for the undo in memory that is kept or not.

    OMP_NUM_THREADS=1 python bench/sizes.py [--rounds 12]

Multilayer perceptrons on 128 rows, Adam, four tasks; every step right after one by hand; medians of the ratios of
processor times. glibc gives freed memory back to the system, unless a process has freed a large part before: so the
variables that `make bench` sets are not set here, and a process measures nothing else.
"""

import argparse
from functools import partial
from statistics import median
from typing import ClassVar, final

import torch
from torch.optim import Adam

from operators import seconds
from stacked import perceptron, task_losses
from steps import Step, machine, row, rule
from torchsims import SIMS, Scalarized
from torchsims.scalarizations import EW
from torchsims.steppers._optimizers import Copies

SIZES = ((2, 128), (8, 128), (3, 256), (3, 512), (3, 1024))  # layers, width
LIMITS = (2**19, Copies.KEPT_BYTES)
OUTER, INNER = partial(Adam, lr=1e-4), partial(Adam, lr=2e-4)


@final
class Steps:
    """The steps of one size, and by hand."""

    METHODS: ClassVar[tuple[str, ...]] = ("EW", "SIMS, joint", "SIMS, sequential")

    def __init__(self, layers: int, width: int) -> None:
        self._make = partial(perceptron, layers, width)
        self._x = torch.randn(128, 32)

    def by_hand(self) -> Step:
        model = self._make()
        optimizer = OUTER(model.parameters())

        def step() -> None:
            optimizer.zero_grad()
            task_losses(model, self._x).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return step

    def of(self, method: str) -> Step:
        if method == "EW":
            return partial(Scalarized(self._make(), EW(), outer=OUTER).step, task_losses, self._x)
        evaluation = method.removeprefix("SIMS, ")
        stepper = SIMS(self._make(), outer=OUTER, inner=INNER, evaluation=evaluation)  # type: ignore[arg-type]
        return partial(stepper.step, task_losses, self._x)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{machine()}\n")
    columns = [f"{name}, {limit / 2**20:g} MiB" for name in Steps.METHODS for limit in LIMITS]
    print(row("layers, width", "parameters", "by hand, ms", *columns))
    print(rule(3 + len(columns)))
    for layers, width in SIZES:
        torch.manual_seed(0)
        steps = Steps(layers, width)
        hand, block = steps.by_hand(), max(5, 40 * (128 // width) ** 2)
        taken, cells = [], []
        for method in Steps.METHODS:
            for limit in LIMITS:
                Copies.KEPT_BYTES = limit
                step, ratios = steps.of(method), []
                for _ in range(options.rounds + 1):
                    taken.append(seconds(hand, block))
                    ratios.append(seconds(step, block) / taken[-1])
                cells.append(f"{median(ratios[1:]):.2f}")
        size = sum(p.numel() for p in perceptron(layers, width).parameters())
        print(row(f"{layers}, {width}", f"{size:,}", f"{1e3 * median(taken):.2f}", *cells), flush=True)


if __name__ == "__main__":
    main()
