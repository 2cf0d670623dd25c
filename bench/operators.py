"""Operators that a step dispatches, and what it takes beyond its passes: a count, the same on every machine.

    python bench/operators.py [--tasks 4 16] [--seconds 60] [--block 100] [--fused]
    python bench/operators.py --quick

Prints a table of every method. An operator stands for the launch of a kernel, which is what a small step on an
accelerator pays for, where some more are dispatched: on a processor steps look at values and leave operators out.
The passes are those of a step by hand, so that the counts include the undo and all checks. With
`--seconds` it also measures the time of a step as a multiple of one by hand, at the first number of tasks, beside one
by hand that copies and checks as much; with `--fused`, Adam is one operator. With `--quick` it only measures, for some
seconds, and fails if a method takes 1.5 times as long as it usually does beside a step by hand: what a change has
broken by accident. Tests hold the counts.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import Any, final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import steps
from steps import SMALL, Batch, Method, Net, Step, by_hand, forward_pass, methods, row, rule, task_losses
from torchsims import Aggregated, aggregations

USUAL = {"EW": 1.15, "LogMerit": 1.23, "FAMO": 1.72, "SIMS, joint": 2.20, "SIMS, sequential": 2.58}  # steps by hand
QUICK = 8.0  # seconds
REGRESSION = 1.5  # times as long as usual; less is noise on a machine that others share
BLOCK = 100  # steps that are measured at once: the first ones find caches that another method has filled


@final
class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators dispatched inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operators(step: Step, warmup: int = 3) -> int:
    for _ in range(warmup):  # the states of the optimizers appear in the first step
        step()
    with Operators() as counter:
        step()
    return int(counter.count)


# What the passes of a method take when they are written by hand.


def one_gradient_per_task(model: Net, batch: Batch) -> Step:
    """Return the passes of a gradient-level method: one backward pass per task, and the mean of the gradients."""
    parameters = list(model.parameters())
    optimizer = steps.OUTER(parameters)

    def step() -> None:
        optimizer.zero_grad()
        losses = list(task_losses(model, batch).values())
        rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
        for p, gradients in zip(parameters, zip(*rows, strict=True), strict=True):
            p.grad = torch.stack(gradients).mean(0)
        optimizer.step()

    return step


@final
@dataclass(frozen=True)
class Counts:
    """The operators of the passes by hand, at one number of tasks."""

    tasks: int
    hand: int
    forward: int
    each: int

    @staticmethod
    def measured(tasks: int) -> "Counts":
        makers = (by_hand, forward_pass, one_gradient_per_task)
        return Counts(tasks, *(operators(make(*SMALL.make(tasks))) for make in makers))

    def passes(self, method: Method) -> int:
        return method.steps * self.hand + method.forwards * self.forward


def aggregated(model: Net, batch: Batch, kind: type[aggregations.Aggregation]) -> Step:
    return partial(Aggregated(model, kind(), outer=steps.OUTER).step, task_losses, batch)


def gradient_level() -> dict[str, Callable[[Net, Batch], Step]]:
    skipped = {"Aggregation", "WeightedAggregation", "from_torchjd", "GradNorm"}  # GradNorm takes names of tasks
    names = sorted(set(aggregations.__all__) - skipped)
    return {name: partial(aggregated, kind=getattr(aggregations, name)) for name in names}


def table(tasks: list[int]) -> None:
    counts = [Counts.measured(each) for each in tasks]
    print(row("", *(f"{n} tasks: operators" for n in tasks), *(f"{n} tasks: beyond the passes" for n in tasks)))
    print(rule(1 + 2 * len(tasks)))
    print(row("a step by hand", *(str(each.hand) for each in counts), *("0" for _ in counts)))
    for name, method in methods().items():
        if method.micro or name.startswith("by hand"):
            continue
        found = [operators(method.make(*SMALL.make(n))) for n in tasks]
        beyond = [n - each.passes(method) for n, each in zip(found, counts, strict=True)]
        print(row(name, *map(str, found), *(f"{n:+d}" for n in beyond)))
    for name, make in gradient_level().items():
        found = [operators(make(*SMALL.make(n))) for n in tasks]
        beyond = [n - each.each for n, each in zip(found, counts, strict=True)]
        print(row(name, *map(str, found), *(f"{n:+d}" for n in beyond)), flush=True)


# Time, as in `steps.py`, with blocks of steps.


def guarded(model: Net, batch: Batch) -> Step:
    """Return a step by hand that could be undone, checks its gradients and fetches the losses."""
    parameters = list(model.parameters())
    optimizer, one = steps.OUTER(parameters), torch.ones(())

    def step() -> tuple[list[float], list[torch.Tensor], torch.Tensor]:
        optimizer.zero_grad()
        random = torch.get_rng_state()
        losses = torch.stack(list(task_losses(model, batch).values()))
        losses.mean().backward()  # type: ignore[no-untyped-call]
        found = torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_([p.grad for p in parameters if p.grad is not None], found, one)
        values = torch.cat([losses.detach(), found]).tolist()
        moments = [each for state in optimizer.state.values() for each in state.values()]
        with torch.no_grad():
            before = torch._foreach_clone([*parameters, *moments])
        optimizer.step()
        return values, list(before), random

    return step


def seconds(step: Step, block: int) -> float:
    start = time.process_time()
    for _ in range(block):
        step()
    return (time.process_time() - start) / block


def times(tasks: int, budget: float, block: int) -> dict[str, float]:
    """Print, and return, how long steps take as multiples of one by hand."""
    hand = by_hand(*SMALL.make(tasks))
    compared = {"by hand": by_hand(*SMALL.make(tasks)), "by hand, guarded": guarded(*SMALL.make(tasks))}
    compared |= {name: methods()[name].make(*SMALL.make(tasks)) for name in USUAL}
    ratios: dict[str, list[float]] = {name: [] for name in compared}
    yardstick: list[float] = []
    for step in (hand, *compared.values()):
        seconds(step, block)
    end = time.monotonic() + budget
    while time.monotonic() < end or len(yardstick) < 3 * len(compared):
        for name, step in compared.items():
            before = seconds(hand, block)
            yardstick.append(before)
            ratios[name].append(seconds(step, block) / before)
    print(f"\nTime, {tasks} tasks, one thread, blocks of {block} steps of {1e3 * median(yardstick):.2f} ms by hand.\n")
    print(row("", "times a step by hand, median", "quartiles"))
    print(rule(3))
    for name, found in ratios.items():
        first, _, third = quantiles(found, n=4)
        print(row(name, f"{median(found):.2f}", f"{first:.2f} to {third:.2f}"))
    return {name: median(found) for name, found in ratios.items()}


def check(found: dict[str, float]) -> None:
    """Exit with an error if a method takes much longer than it usually does."""
    slow = [
        f"{name} {found[name]:.2f}, usually {usual}"
        for name, usual in USUAL.items()
        if found[name] > REGRESSION * usual
    ]
    if slow:
        sys.exit(f"Steps take {REGRESSION} times as long as usual, beside a step by hand: {'; '.join(slow)}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--block", type=int, default=BLOCK, help="steps that are measured at once")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.fused:
        steps.OUTER, steps.INNER = (partial(each, fused=True) for each in (steps.OUTER, steps.INNER))
    torch.set_num_threads(1)
    print(f"{SMALL.name}, {SMALL.title}; Adam; torch {torch.__version__}\n")
    if arguments.quick:
        check(times(4, QUICK, arguments.block))
        return
    table(arguments.tasks)
    if arguments.seconds:
        times(arguments.tasks[0], arguments.seconds, arguments.block)


if __name__ == "__main__":
    main()
