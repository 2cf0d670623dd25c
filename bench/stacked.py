"""Both copies of SIMS as one stacked module under `vmap`, compared with two modules: why there is no such evaluation.

    python bench/stacked.py [--seconds 10] [--compile]

The forward and backward passes of two copies, without optimizers, as multiples of those of one copy: with two modules,
one after the other (`evaluation="joint"`), and with one stacked module (`functional_call` under `vmap`, the parameters
stacked in the graph). Beside them the same network written for stacked parameters, one batched product per layer, which
only its author can do. With `--compile`, also compiled by inductor. Processor time on one thread, median of the ratios
of neighbours.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from steps import row, rule

TASKS = 4
BLOCK = 5  # steps that are measured at once, so that caches are as warm as in a loop
SIZES = ((2, 128, 256), (2, 128, 16), (2, 32, 16), (8, 32, 16), (8, 128, 16))  # layers, width, rows


def perceptron(layers: int, width: int) -> nn.Module:
    hidden = [layer for _ in range(layers - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(32, width), nn.ReLU(), *hidden, nn.Linear(width, TASKS))


def task_losses(model: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = (model(x) - 1).square().mean(0)
    return result


class Called(nn.Module):
    """Calls a closure with a model, so that `functional_call` can give the model other parameters."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return task_losses(self.model, x)


def passes(layers: int, width: int, rows: int, compiled: bool) -> dict[str, Callable[[], None]]:
    model, twin, x = perceptron(layers, width), perceptron(layers, width), torch.randn(rows, 32)
    names = [f"model.{name}" for name, _ in model.named_parameters()]
    mine, theirs = list(model.parameters()), list(twin.parameters())
    called, weights = Called(model), torch.full((TASKS,), 1 / TASKS)

    def at(*parameters: Tensor) -> Tensor:
        result: Tensor = functional_call(called, dict(zip(names, parameters, strict=True)), (x,))
        return result

    def drop() -> None:
        for p in (*mine, *theirs, *kept, *biases):
            p.grad = None

    def run(*losses: Tensor) -> None:
        torch.autograd.backward(losses, [weights.expand_as(each) for each in losses])

    def two() -> tuple[Tensor, Tensor]:
        return task_losses(model, x), task_losses(twin, x)

    def stacked(*parameters: Tensor) -> Tensor:
        pairs = zip(parameters[: len(mine)], parameters[len(mine) :], strict=True)
        result: Tensor = vmap(at, randomness="same")(*(torch.stack(pair) for pair in pairs))
        return result

    layers_of_both = [(a, b) for a, b in zip(model, twin, strict=True) if isinstance(a, nn.Linear)]  # type: ignore[call-overload]
    kept = [torch.stack([each.weight.T for each in pair]).detach().requires_grad_() for pair in layers_of_both]
    biases = [torch.stack([each.bias[None] for each in pair]).detach().requires_grad_() for pair in layers_of_both]

    def products() -> Tensor:
        hidden = x.expand(2, -1, -1)
        for weight, bias in zip(kept[:-1], biases[:-1], strict=True):
            hidden = torch.baddbmm(bias, hidden, weight).relu()
        return (torch.baddbmm(biases[-1], hidden, kept[-1]) - 1).square().mean(1)

    def step(function: Callable[..., Any], *arguments: Tensor) -> Callable[[], None]:
        def taken() -> None:
            drop()
            found = function(*arguments)
            run(*(found if isinstance(found, tuple) else (found,)))

        return taken

    result = {
        "one copy": step(task_losses, model, x),  # type: ignore[arg-type]
        "two modules": step(two),
        "stacked": step(stacked, *mine, *theirs),
        "stacked, by hand": step(products),
    }
    if compiled:
        result |= {
            "one copy, compiled": step(torch.compile(task_losses), model, x),  # type: ignore[arg-type]
            "two modules, compiled as one": step(torch.compile(two)),
            "stacked, compiled": step(torch.compile(stacked), *mine, *theirs),
        }
    return result


def seconds(step: Callable[[], None]) -> float:
    start = time.process_time()
    for _ in range(BLOCK):
        step()
    return (time.process_time() - start) / BLOCK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="for every size")
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for index, size in enumerate(SIZES):
        torch.manual_seed(0)
        torch.compiler.reset()
        steps = passes(*size, arguments.compile)
        for step in (*steps.values(), *steps.values()):
            step()
        base, *others = steps
        ratios: dict[str, list[float]] = {name: [] for name in others}
        plain: list[float] = []
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end or len(plain) < 20 * len(others):
            for name in others:
                before = seconds(steps[base])
                plain.append(before)
                ratios[name].append(seconds(steps[name]) / before)
        if index == 0:
            print(row("layers, width, rows", "one copy, ms", *others))
            print(rule(2 + len(others)))
        figures = (f"{median(found):.2f}" for found in ratios.values())
        print(row(", ".join(map(str, size)), f"{1e3 * median(plain):.2f}", *figures), flush=True)


if __name__ == "__main__":
    main()
