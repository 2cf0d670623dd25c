"""Print the tables of docs/preferences.md: where a preference ends on two quadratics with small floors.

    python bench/preferences.py

Two squared distances in the plane, to A = (0, 0) and B = (1, 0), plus a floor c. Every number is the loss of A above
its floor at the end of a run from (0.6, 0.2), for the preferences A : B = 1/4, 1/2, 1, 2, 4. Also prints in how many of
135 cases (floors, temperatures and nine starts) more preference for A ends with a larger loss of A.
"""

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from torchsims import merit

RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)
FLOORS, TEMPERATURES = (0.5, 0.05, 0.005), (0.03, 0.1, 0.3, 1.0, 3.0)
STARTS = [(0.6, 0.2), (0.2, 0.6), (0.2, 0.0), (0.6, 0.0), (0.9, 0.1), (-1.0, 0.5), (1.5, -1.0), (0.4, 2.0), (2.0, 1.0)]
CASES = list(product(FLOORS, TEMPERATURES, STARTS))
SPEED, STEPS = 2.0, 6000
CENTRES = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)

Weigh = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def sims(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    w = merit.weights(here, there, tau=tau, preference=p, reference=first)
    return w / here, merit.weights(here, there, tau=tau) / there


def log_merit(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    return merit.weights(here, here, tau=tau, preference=p, reference=first) / here, torch.zeros_like(there)


def gls(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    return p / p.sum(-1, keepdim=True) / here, torch.zeros_like(there)


def stch(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    w = p / p.sum(-1, keepdim=True)
    return w * torch.softmax(w * here / tau.unsqueeze(-1), -1), torch.zeros_like(there)


def factor(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    w = torch.softmax((there / here).log() / tau.unsqueeze(-1) + p.log(), -1)
    return w / here, w / there


def excess_of_a(weigh: Weigh) -> Tensor:
    """Return the loss of A above its floor at the end of all runs, `case x ratio`."""
    rows = [(*case, ratio) for case in CASES for ratio in RATIOS]
    c, tau, p = (torch.tensor([row[i] for row in rows], dtype=torch.float64) for i in (0, 1, 3))
    p = torch.stack([p, torch.ones_like(p)], -1)
    theta = torch.tensor([row[2] for row in rows], dtype=torch.float64)
    prime = theta.clone()

    def losses(points: Tensor) -> tuple[Tensor, Tensor]:
        z = points.unsqueeze(-2) - CENTRES
        return z.square().sum(-1) + c.unsqueeze(-1), 2 * z

    first, _ = losses(theta)
    for _ in range(STEPS):
        (here, g), (there, g_prime) = losses(theta), losses(prime)
        rate = 0.3 * torch.minimum(here, there).amin(-1, keepdim=True) * (1.5 * tau.unsqueeze(-1)).clamp(max=1) / SPEED
        w, w_prime = weigh(here, there, first, p, tau)
        theta = theta - rate * torch.einsum("rt,rtd->rd", w, g)
        prime = prime - SPEED * rate * torch.einsum("rt,rtd->rd", w_prime, g_prime)
    return (losses(theta)[0][:, 0] - c).reshape(len(CASES), len(RATIOS))


def main() -> None:
    methods = {"SIMS": sims, "LogMerit": log_merit, "GLS": gls, "STCH": stch, "factor in the merit": factor}
    for name, weigh in methods.items():
        excess = excess_of_a(weigh)
        wrong = int((excess.diff() > 1e-6).any(-1).sum())
        print(f"{name}: more preference ends with a larger loss in {wrong} of {len(CASES)} cases")
        for (c, tau, start), row in zip(CASES, excess.tolist(), strict=True):
            if start == STARTS[0]:
                print(f"| {name} | {c:g} | {tau:g} | {' | '.join(f'{value:.3f}' for value in row)} |")


if __name__ == "__main__":
    main()
