"""What a change of units does to training on three tasks, with equal weights and with SIMS.

    python examples/units.py
    python examples/units.py --figure docs/units.png    # needs matplotlib

One network learns three functions. The same run is repeated with the second loss multiplied by 1024 and the third
divided by 1024, as if both were measured in other units: the losses now differ by a factor of a million, and nothing
about the tasks has changed.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from torchsims import SIMS, Scalarized, Stepper
from torchsims.scalarizations import EW

TASKS = ("wave", "ridge", "product")
UNITS = {"equal units": (1.0, 1.0, 1.0), "units 1 : 1024 : 1/1024": (1.0, 1024.0, 1 / 1024)}
EVERY, NOISE = 10, 0.3

Method = Callable[[nn.Module], Stepper[Any]]
METHODS: Mapping[str, Method] = {
    "EW": lambda model: Scalarized(model, EW(), outer=partial(Adam, lr=2e-3)),
    "SIMS": lambda model: SIMS(model, tau=3.0, outer=partial(Adam, lr=2e-3), inner=partial(Adam, lr=4e-3)),
}


def sample(number: int, seed: int, noise: float = NOISE) -> tuple[Tensor, Tensor]:
    """Return inputs, `number x 4`, and three noisy targets of variance about one, `number x 3`."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(number, 4, generator=generator) - 1
    wave, ridge, product = torch.sin(4 * x[:, 0] + x[:, 1]), (x[:, 1] - 2 * x[:, 2]).abs(), 3 * x[:, 0] * x[:, 3]
    y = torch.stack([1.4 * wave, 1.4 * (ridge - 1.1), product], 1)
    return x, y + noise * torch.randn(y.shape, generator=generator)


def train(make: Method, units: tuple[float, ...], steps: int, seed: int = 0) -> Tensor:
    """Return the share of variance explained on new data, `evaluation x task`."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, len(TASKS)))
    method = make(model)

    def task_losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        x, y = batch
        error = (model(x) - y).square().mean(0)
        return {task: unit * error[i] for i, (task, unit) in enumerate(zip(TASKS, units, strict=True))}

    x, y = sample(2000, seed=1, noise=0.0)
    history = []
    for step in range(steps):
        method.step(task_losses, sample(64, seed=1000 + step))
        if (step + 1) % EVERY == 0:
            with torch.no_grad():
                history.append(1 - (model(x) - y).square().mean(0) / y.var(0))
    return torch.stack(history)


def print_table(results: Mapping[tuple[str, str], Tensor]) -> None:
    """Print the final values."""
    print("Share of variance explained (R2) on new data, at the end\n")
    print(f"| method | {'units':23} | " + " | ".join(f"{task:>7}" for task in TASKS) + " |")
    print(f"|--------|{'-' * 25}|" + "|".join("-" * 9 for _ in TASKS) + "|")
    for (method, units), history in results.items():
        print(f"| {method:6} | {units:23} | " + " | ".join(f"{value:7.3f}" for value in history[-1].tolist()) + " |")
    first, second = (results["SIMS", units] for units in UNITS)
    print(f"\nLargest change of any SIMS value by the units, at any time: {(first - second).abs().max():.1e}")


def draw(results: Mapping[tuple[str, str], Tensor], path: str) -> None:
    """Draw all values over the steps."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(METHODS), figsize=(9, 3.4), sharey=True, layout="constrained")
    steps = torch.arange(1, len(next(iter(results.values()))) + 1) * EVERY
    for axis, method in zip(axes, METHODS, strict=True):
        for i, task in enumerate(TASKS):
            for units, style in zip(UNITS, ("-", "--"), strict=True):
                label = task if style == "-" else None
                axis.plot(steps, results[method, units][:, i], style, color=f"C{i}", label=label)
        axis.plot([], [], "k-", label="equal units")
        axis.plot([], [], "k--", label="units 1 : 1024 : 1/1024")
        axis.set(
            title=f"{method}: the two units coincide" if method == "SIMS" else method, xlabel="step", ylim=(-0.15, 1.02)
        )
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("variance explained (R²)")
    axes[1].legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run all and show it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", metavar="PATH", help="also draw a figure; needs matplotlib")
    parser.add_argument("--steps", type=int, default=600, help="of every training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the network is too small to share
    results = {
        (name, label): train(make, units, arguments.steps)
        for name, make in METHODS.items()
        for label, units in UNITS.items()
    }
    print_table(results)
    if arguments.figure:
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
