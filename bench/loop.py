"""Where the time of a training run goes: the method, what a step needs beside it, data, evaluation, checkpoints.

    python bench/loop.py [--csv TABLE --targets a,b,c] [--methods ew sims]

Trains on scenes, a table and click logs as `torchsims train` does without further options, TensorBoard included, and
prints shares of the time from the first batch to the last evaluation. *Beside it* is what else a step does: random
numbers, schedules, history, callbacks; *other* is what no clock saw, less the checkpoint before the first batch, which
a clock saw. Without a file the table is a generated one. One thread.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import torch

from steps import machine, row, rule
from torchsims.steppers import Stepper
from torchsims.training import Callback, TensorBoard, complete_config, train

COLUMNS, TARGETS, ROWS = 32, 4, 12_000
DATA = ("scenes", "table", "aliccp")


@final
class Clock(Callback):
    """The time from the first batch to the end, and the part of it inside of a method."""

    def __init__(self) -> None:
        self.begin = self.end = self.method = 0.0

    def on_start(self, step: int, steps: int) -> None:
        self.begin = perf_counter()

    def on_end(self) -> None:
        self.end = perf_counter()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts as that of the method."""

        @wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            begin = perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.method += perf_counter() - begin

        return called


def generated_table(path: Path) -> tuple[str, ...]:
    """Write a table of numbers, and return the names of its targets."""
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(ROWS, COLUMNS))
    y = np.tanh(x @ numbers.normal(size=(COLUMNS, TARGETS))) * 10.0 ** np.arange(TARGETS)
    names = [*(f"x{i}" for i in range(COLUMNS)), *(f"y{i}" for i in range(TARGETS))]
    np.savetxt(path, np.hstack([x, y]), delimiter=",", header=",".join(names), comments="")
    return tuple(names[COLUMNS:])


def shares(settings: dict[str, Any], folder: Path) -> dict[str, float]:
    """Train, and return the seconds by part."""
    clock = Clock()
    before = Stepper.backward, Stepper.update
    Stepper.backward, Stepper.update = map(clock.timed, before)  # type: ignore[method-assign]
    try:
        run = train(complete_config(settings), folder, callbacks=[TensorBoard(folder / "events"), clock])
    finally:
        Stepper.backward, Stepper.update = before  # type: ignore[method-assign]
    found = dict(run.seconds)
    total, step = clock.end - clock.begin, found.pop("step")
    return {
        "seconds": total,
        "method": clock.method,
        "beside it": step - clock.method,
        **found,
        "other": total - step - sum(found.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--targets", default="")
    parser.add_argument("--methods", nargs="+", default=["ew", "sims"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{machine()}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv, targets = arguments.csv, tuple(arguments.targets.split(","))
        if csv is None:
            csv = folder / "table.csv"
            targets = generated_table(csv)
        of_table = {"root": str(csv), "tasks": targets}
        for data in DATA:
            for method in arguments.methods:
                settings = {"data": data, "method": method, **(of_table if data == "table" else {})}
                found = shares(settings, folder / f"{data}-{method}")
                if (data, method) == ("scenes", arguments.methods[0]):
                    print(row("share of the time, %", *found))
                    print(rule(1 + len(found)))
                total = found["seconds"]
                cells = (f"{100 * value / total:.1f}" for part, value in found.items() if part != "seconds")
                print(row(f"{data}, {method}", f"{total:.1f}", *cells), flush=True)


if __name__ == "__main__":
    main()
