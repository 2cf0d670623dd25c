"""A Gramian without the gradients, by forward-mode differentiation: step time and peak memory beside `Aggregated`.

    python bench/gramian.py [--rounds 7] [--tasks 2 8 32]

Row j of the Gramian, the inner products of g_j with all gradients, is the derivative of all losses along g_j: one
backward pass for g_j and one forward pass with tangents, after which g_j is dropped. One thread, about a minute.
"""

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call

from aggregated import CNN, ours, peak, seconds
from steps import OUTER, Batch, Net, Step, by_hand, machine
from torchsims.aggregations import MGDA

WARMUP = 2
dual: Any = forward_ad  # has no types


def losses_of(outputs: list[Tensor], targets: Tensor) -> Tensor:
    return torch.stack([(y - t).square().mean() for y, t in zip(outputs, targets, strict=True)])


def with_tangents(model: Net, batch: Batch) -> Step:
    """Return a step of MGDA that holds one gradient at a time."""
    optimizer, method = OUTER(list(model.parameters())), MGDA()
    shared = {f"encoder.{name}": p for name, p in model.encoder.named_parameters()}
    x, targets = batch

    @torch.no_grad()
    def along(direction: tuple[Tensor, ...]) -> Tensor:
        """Return the derivatives of all losses."""
        buffers = {name: b.clone() for name, b in model.named_buffers()}  # of batch norm, which a pass changes
        with dual.dual_level():
            pairs = zip(shared.items(), direction, strict=True)
            duals = {name: dual.make_dual(p.detach(), g) for (name, p), g in pairs}
            found = losses_of(functional_call(model, duals | buffers, (x,)), targets)
            tangent: Tensor = dual.unpack_dual(found).tangent
        return tangent

    def step() -> None:
        losses = losses_of(model(x), targets)
        rows = [along(torch.autograd.grad(loss, list(shared.values()), retain_graph=True)) for loss in losses]
        w = method.weights(torch.stack(rows), losses.detach(), torch.ones(model.tasks, dtype=torch.bool))
        optimizer.zero_grad()
        torch.autograd.backward(losses.sum(), inputs=list(model.heads.parameters()), retain_graph=True)
        torch.autograd.backward((w * losses).sum(), inputs=list(shared.values()))
        optimizer.step()

    return step


def measure(make: Callable[[Net, Batch], Step], tasks: int, rounds: int) -> list[float]:
    """Return multiples of a step by hand, each measured right after one."""
    hand, step = by_hand(*CNN.make(tasks)), make(*CNN.make(tasks))
    for _ in range(WARMUP):
        hand()
        step()
    found = []
    for _ in range(rounds):
        before = seconds(hand)
        found.append(seconds(step) / before)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a Gramian by forward-mode differentiation.")
    parser.add_argument("--rounds", type=int, default=7, help="how often each step is measured")
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 8, 32])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    kinds: dict[str, Callable[[Net, Batch], Step]] = {
        "gradients kept": partial(ours, name="MGDA"),
        "forward mode": with_tangents,
    }
    for tasks in arguments.tasks:
        base = peak(by_hand, tasks)
        for name, make in kinds.items():
            found = measure(make, tasks, arguments.rounds)
            low, _, high = quantiles(found, n=4)
            memory = peak(make, tasks)
            print(
                f"{tasks} tasks, {name}: time {median(found):.2f} ({low:.2f} to {high:.2f}), "
                f"memory {memory / base:.3f}, {memory} bytes"
            )


if __name__ == "__main__":
    main()
