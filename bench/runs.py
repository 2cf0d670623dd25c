"""Steps per second of the batched runner against a Python loop over runs with ``torch.optim.Adam``.

    python bench/runs.py [RUNS]

Prints one line per implementation: steps per second, summed over the runs, and the ratio to the Python loop.
"""

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Adam

from torchsims import merit
from torchsims.problems import Toy
from torchsims.synthetic import Saddle, run_rows

TAU = 0.01


def python_loop(starts: Tensor, steps: int) -> None:
    """Advance one run after the other, each with its own two optimizers."""
    problem = Toy()
    for start in starts:
        theta, challenger = start.clone().requires_grad_(), (start + 0.1).requires_grad_()
        outer, inner = Adam([theta], lr=1e-3, maximize=True), Adam([challenger], lr=1e-3)
        for _ in range(steps):
            outer.zero_grad()
            inner.zero_grad()
            torch.autograd.backward(merit.h(problem.losses(theta), problem.losses(challenger), tau=TAU))
            outer.step()
            inner.step()


def batched(starts: Tensor, steps: int, *, compiled: bool) -> None:
    """Advance all runs as one tensor."""
    run_rows(Toy(), Saddle(tau=TAU, offset=0.1), starts, steps=steps, compiled=compiled)


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    torch.set_num_threads(1)
    starts = torch.empty(runs, 2, dtype=torch.float64).uniform_(-10, 10, generator=torch.Generator().manual_seed(0))
    print(f"{runs} runs, torch {torch.__version__}, one thread, float64; processor time")
    loop = 2 * 300 / _seconds(lambda: python_loop(starts[:2], 300))
    print(f"Python loop       {loop:12,.0f} run-steps/s     1x")
    eager = runs * 500 / _seconds(lambda: batched(starts, 500, compiled=False))
    print(f"batched           {eager:12,.0f} run-steps/s {eager / loop:5.0f}x")
    batched(starts, 1, compiled=True)  # the compiler keeps what it made on disk
    compiling = _seconds(lambda: batched(starts, 1, compiled=True))
    fast = runs * 20_000 / (_seconds(lambda: batched(starts, 20_000, compiled=True)) - compiling)
    print(f"batched, compiled {fast:12,.0f} run-steps/s {fast / loop:5.0f}x")


def _seconds(work: Callable[[], None]) -> float:
    """Return the processor time of ``work``, which other programs on the machine do not change much."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
