"""What `torch.compile` of the model, of the closure or of the whole step does to the time of a step.

    python bench/compiled.py [--seconds 20] [--skip-step]

Every figure is the processor time of a step on one thread as a multiple of an eager step of the same method, the median
over rounds in which all take turns. Also printed: how many graphs were compiled, and how many of them after the third
step. CUDA graphs are not measured: there is no GPU here.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters

from steps import CNN, INNER, OUTER, SMALL, Batch, Net, Setting, Step, row, rule, task_losses
from torchsims import SIMS, Scalarized
from torchsims.scalarizations import EW, LogMerit

FIRST = 3  # steps in which everything is compiled

Maker = Callable[[nn.Module, Batch, Callable[..., Any], bool], Step]


def by_hand(model: nn.Module, batch: Batch, closure: Callable[..., Any], whole: bool) -> Step:
    optimizer = OUTER(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.stack(list(closure(model, batch).values())).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return torch.compile(step) if whole else step


def with_method(make: Callable[[nn.Module], Any]) -> Maker:
    def maker(model: nn.Module, batch: Batch, closure: Callable[..., Any], whole: bool) -> Step:
        step = make(model).step
        return partial(torch.compile(step) if whole else step, closure, batch)

    return maker


METHODS: dict[str, Maker] = {
    "by hand": by_hand,
    "EW": with_method(lambda model: Scalarized(model, EW(), outer=OUTER)),
    "LogMerit": with_method(lambda model: Scalarized(model, LogMerit(), outer=OUTER)),
    "SIMS, joint": with_method(lambda model: SIMS(model, outer=OUTER, inner=INNER, evaluation="joint")),
    "SIMS, sequential": with_method(lambda model: SIMS(model, outer=OUTER, inner=INNER)),
}
KINDS = ("model", "closure", "step")


def prepared(setting: Setting, maker: Maker, kind: str, tasks: int) -> Step:
    model: Net
    model, batch = setting.make(tasks)
    used: nn.Module = torch.compile(model) if kind == "model" else model  # type: ignore[assignment]
    closure = torch.compile(task_losses) if kind == "closure" else task_losses
    return maker(used, batch, closure, kind == "step")


def graphs(step: Step) -> tuple[int, int]:
    """Take the first steps and a few more; return how many graphs were compiled, and how many of them later."""
    counters.clear()
    for _ in range(FIRST):
        step()
    first = counters["stats"]["unique_graphs"]
    for _ in range(FIRST):
        step()
    return counters["stats"]["unique_graphs"], counters["stats"]["unique_graphs"] - first


def seconds(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def table(setting: Setting, tasks: int, budget: float, kinds: tuple[str, ...]) -> None:
    print(f"\n{setting.title}, {tasks} tasks\n")
    print(row("", "eager, ms", *(f"compiled {kind}" for kind in kinds), "graphs, later ones"))
    print(rule(3 + len(kinds)))
    for name, maker in METHODS.items():
        torch.compiler.reset()
        eager = prepared(setting, maker, "none", tasks)
        steps = {kind: prepared(setting, maker, kind, tasks) for kind in kinds}
        found = {kind: graphs(step) for kind, step in steps.items()}
        for _ in range(FIRST):
            eager()
        times: dict[str, list[float]] = {kind: [] for kind in steps}
        plain: list[float] = []
        end = time.monotonic() + budget
        while time.monotonic() < end or len(plain) < 3 * len(steps):
            for kind, step in steps.items():
                before = seconds(eager)
                plain.append(before)
                times[kind].append(seconds(step) / before)
        compiled = [f"{median(times[kind]):.2f}" for kind in kinds]
        notes = ", ".join(f"{kind} {found[kind][0]}, {found[kind][1]}" for kind in kinds)
        print(row(name, f"{1e3 * median(plain):.2f}", *compiled, notes), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring, for every row")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--skip-step", action="store_true", help="do not compile the whole step, which takes a minute")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kinds = KINDS[:2] if arguments.skip_step else KINDS
    for setting in (SMALL, CNN):
        table(setting, arguments.tasks, arguments.seconds, kinds)


if __name__ == "__main__":
    main()
