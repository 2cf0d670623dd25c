"""The time of small and of larger steps beside one by hand, with copies for the undo in memory that is kept or not.

    OMP_NUM_THREADS=1 python bench/sizes.py [--rounds 12]

Multilayer perceptrons on 128 rows, Adam, four tasks; blocks of steps right after as many by hand; medians of the ratios
of processor times. glibc gives freed memory back to the system, unless a process has freed a large part before: so the
variables that `make bench` sets are not set here, and a process measures nothing else.
"""

import argparse
from statistics import median

import torch
from torch import nn

from operators import seconds
from stacked import TASKS, perceptron
from steps import Net, Setting, by_hand, machine, methods, row, rule
from torchsims.steppers._optimizers import Copies

SIZES = ((2, 128), (8, 128), (3, 256), (3, 512), (3, 1024))  # layers, width
METHODS = ("EW", "SIMS, joint", "SIMS, sequential")
LIMITS = (2**19, Copies.KEPT_BYTES)


def setting(layers: int, width: int) -> Setting:
    def net(tasks: int) -> Net:
        return Net(perceptron(layers, width), [nn.Identity()], tasks)

    return Setting(f"{layers}, {width}", "a perceptron on 128 rows", net, (128, 32), (128,))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{machine()}\n")
    columns = [f"{name}, {limit / 2**20:g} MiB" for name in METHODS for limit in LIMITS]
    print(row("layers, width", "parameters", "by hand, ms", *columns))
    print(rule(3 + len(columns)))
    for layers, width in SIZES:
        size = setting(layers, width)
        model, batch = size.make(TASKS)
        hand, block = by_hand(model, batch), max(5, 40 * 128**2 // width**2)
        taken, cells = [], []
        for name in METHODS:
            for limit in LIMITS:
                Copies.KEPT_BYTES = limit
                step, ratios = methods()[name].make(*size.make(TASKS)), []
                for _ in range(1 + options.rounds):  # the first one warms up
                    taken.append(seconds(hand, block))
                    ratios.append(seconds(step, block) / taken[-1])
                cells.append(f"{median(ratios[1:]):.2f}")
        parameters = sum(p.numel() for p in model.parameters())
        print(row(size.name, f"{parameters:,}", f"{1e3 * median(taken):.2f}", *cells), flush=True)


if __name__ == "__main__":
    main()
