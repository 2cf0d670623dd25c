"""Slow twins of every method, written from its formula, or TorchJD called directly.

A twin of a loss-level method knows only the tasks that have a label: a step is a mapping from task to loss, and an
absent task is not in it. A twin of a gradient-level method is a function with a memory, called once per step.
"""

import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
import torch
from quadprog import solve_qp
from scipy.optimize import root
from torch import Tensor

Step: TypeAlias = Mapping[int, float]
LossTwin: TypeAlias = Callable[[Sequence[Step], Sequence[Step], Step], float]
"""Steps so far, the losses observed after each, and the losses now, to the objective."""
Weights: TypeAlias = Callable[[Sequence[Step], Step], dict[int, float]]
"""Steps so far and the losses now to the weights of the losses, which are held constant."""
GradientTwin: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Gradients (task, column) and losses (task,) to the direction (column,)."""

START = (0.1, -0.2, 0.5)
WEIGHTS = (0.5, 2.0, 1.5)
PREFERENCE = (3.0, 0.5, 1.0)
FLOOR = 0.2
IDEAL = (0.1, -0.3, 0.2)
STEPS_PER_EPOCH = 2
RATE = 0.02  # learning rate of the optimizer in the tests of gradient-level methods


# Loss-level methods


def log_sum_exp(values: Sequence[float], tau: float) -> float:
    return tau * math.log(sum(math.exp(value / tau) for value in values))


def softmax(values: Step) -> dict[int, float]:
    total = sum(math.exp(value) for value in values.values())
    return {i: math.exp(value) / total for i, value in values.items()}


def epoch_means(steps: Sequence[Step], task: int) -> list[tuple[int, float]]:
    """Return the epochs in which a task had labels and its mean loss there."""
    means = []
    for e in range(len(steps) // STEPS_PER_EPOCH):
        seen = [step[task] for step in steps[e * STEPS_PER_EPOCH : (e + 1) * STEPS_PER_EPOCH] if task in step]
        if seen:
            means.append((e, sum(seen) / len(seen)))
    return means


def ew(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return sum(now.values()) / len(now)


def fixed_weights(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return sum(WEIGHTS[i] * now[i] for i in now)


def rlw(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    generator = torch.Generator().manual_seed(3)
    for _ in range(len(past) + 1):
        g = torch.randn(3, generator=generator, dtype=torch.float64)
    w = softmax({i: g[i].item() for i in now})
    return sum(w[i] * now[i] for i in now)


def uw(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return sum((now[i] * math.exp(-START[i]) + START[i]) / 2 for i in now)


def imtl_l(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return sum(now[i] * math.exp(START[i]) - START[i] for i in now)


def dwa(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    rates = {}
    for i in now:
        means = [mean for _, mean in epoch_means(past, i)]
        rates[i] = means[-1] / means[-2] / 0.7 if len(means) > 1 else 1 / 0.7
    w = softmax(rates)
    return len(now) * sum(w[i] * now[i] for i in now)


def gls(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return math.prod(now.values()) ** (1 / len(now))


def gls_preferred(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return math.exp(sum(PREFERENCE[i] * math.log(now[i]) for i in now) / sum(PREFERENCE[i] for i in now))


def stch_preferred(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    total = sum(PREFERENCE[i] for i in now)
    return log_sum_exp([PREFERENCE[i] / total * now[i] for i in now], 0.7)


def pbi(p: Sequence[float], z: Sequence[float]) -> LossTwin:
    def twin(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
        """By Pythagoras: the squared distance to the ray is what is left of the squared distance to the ideal point."""
        size = math.sqrt(sum(p[i] ** -2 for i in now))
        along = sum((now[i] - z[i]) / p[i] for i in now) / size
        squared = sum((now[i] - z[i]) ** 2 for i in now)
        return along + 3 * math.sqrt(max(squared - along**2, 0))

    return twin


def stch(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return log_sum_exp([loss / len(now) for loss in now.values()], 0.7)


def stch_weighted(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return log_sum_exp([WEIGHTS[i] * (now[i] - IDEAL[i]) for i in now], 0.7)


def stch_warmup(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return sum(math.log(loss) for loss in now.values())


def stch_normalized(epochs: int, p: Sequence[float] = (1.0, 1.0, 1.0)) -> LossTwin:
    def twin(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
        if len(past) < epochs * STEPS_PER_EPOCH:
            return len(now) * sum(p[i] * math.log(now[i]) for i in now) / sum(p[i] for i in now)
        d = []
        for i in now:
            warmup = [mean for e, mean in epoch_means(past, i) if e < epochs]
            later = [step[i] for step in [*past[epochs * STEPS_PER_EPOCH :], now] if i in step]
            d.append(math.log(p[i] * now[i] / (warmup[-1] if warmup else later[0])))
        return len(now) * log_sum_exp(d, 0.7)

    return twin


def chebyshev(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return max(now.values()) / len(now)


def chebyshev_weighted(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return max(WEIGHTS[i] * (now[i] - IDEAL[i]) for i in now)


def first_losses(past: Sequence[Step], now: Step) -> dict[int, float]:
    """Return the first loss of every task."""
    return {i: next(step[i] for step in [*past, now] if i in step) for i in now}


def log_merit_preferred(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    first = first_losses(past, now)
    return 0.7 * math.log(sum((PREFERENCE[i] * now[i] / first[i]) ** (1 / 0.7) for i in now))


def log_merit_floored(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    first = first_losses(past, now)
    *raised, last = ({i: step[i] + FLOOR * first[i] for i in now if i in step} for step in [*past, now])
    return log_merit(0.0)(raised, observed, last)


def log_merit(rho: float) -> LossTwin:
    def twin(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
        d = []
        for i in now:
            seen = [step[i] for step in [*past, now] if i in step]
            log_reference = math.log(seen[0])
            for loss in seen[:-1]:
                log_reference = 0.6 * log_reference + 0.4 * math.log(loss)
            d.append(math.log(now[i]) - log_reference)
        return (log_sum_exp(d, 0.7) + rho * sum(d)) / (1 + rho * len(d))

    return twin


def famo(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    w = [torch.nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in START]
    optimizers = [torch.optim.Adam([parameter], lr=0.3, weight_decay=0.01) for parameter in w]
    for before, then in zip(past, observed, strict=True):
        delta = torch.tensor([math.log(before[i]) - math.log(then[i]) for i in before], dtype=torch.float64)
        z = torch.softmax(torch.stack([w[i] for i in before]), -1)
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.autograd.backward((z @ delta).sum())
        for i in before:
            optimizers[i].step()
    weights = softmax({i: w[i].item() for i in now})
    c = sum(weights[i] / now[i] for i in now)
    return sum(weights[i] * math.log(now[i]) for i in now) / c


def weighted(weights: Weights) -> LossTwin:
    """Return the twin of a sum of losses with weights that are held constant."""

    def twin(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
        w = weights(past, now)
        return sum(w[i] * now[i] for i in now)

    return twin


def uw_so(past: Sequence[Step], now: Step) -> dict[int, float]:
    return softmax({i: 1 / (40.0 * now[i]) for i in now})


def slaw(past: Sequence[Step], now: Step) -> dict[int, float]:
    """The means of losses and of their squares, each kept by itself as in the paper; three steps count alike."""
    spread = {}
    for i in now:
        a, b = 0.0, 0.0
        seen = [step[i] for step in [*past, now] if i in step]
        for t, loss in enumerate(seen, 1):
            beta = (t - 1) / t if t <= 3 else 2 / 3
            a, b = beta * a + (1 - beta) * loss**2, beta * b + (1 - beta) * loss
        spread[i] = math.sqrt(a - b**2) if len(seen) > 1 else b
    return {i: len(now) / spread[i] / sum(1 / s for s in spread.values()) for i in now}


def go4align(groups: int) -> Weights:
    """Every grouping of the tasks is tried; p is multiplied in every step."""

    def weights(past: Sequence[Step], now: Step) -> dict[int, float]:
        p = dict.fromkeys(now, 1.0)
        for step in [*past, now]:
            p = {i: p[i] * math.exp(-0.02 * step.get(i, 0.0)) for i in p}
        gamma = {i: p[i] / sum(p[j] for j in now) * sum(now.values()) / now[i] for i in now}
        groupings = [dict(zip(now, choice, strict=True)) for choice in product(range(groups), repeat=len(now))]
        best = min(groupings, key=lambda group: sum(variance(members(gamma, group, g)) for g in range(groups)))
        return {i: statistics.fmean(members(gamma, best, best[i])) for i in now}

    return weights


def members(values: Step, group: Mapping[int, int], of: int) -> list[float]:
    return [value for i, value in values.items() if group[i] == of]


def variance(values: Sequence[float]) -> float:
    return sum((value - statistics.fmean(values)) ** 2 for value in values)


def ldc_mtl(normalize: str, pairs: str) -> LossTwin:
    def twin(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
        first = {i: next(step[i] for step in [*past, now] if i in step) for i in now}
        w = {i: 1 / (1 + math.exp(-max(START[i], 0))) for i in now}
        logs = {i: math.log(now[i] / first[i]) for i in now}
        ratios = {i: now[i] / (first[i] / min(first.values())) for i in now}
        terms = [w[i] * (logs[i] if normalize == "log" else ratios[i]) for i in sorted(now)]
        neighbours, every = list(pairwise(terms)), list(combinations(terms, 2))
        distances = [abs(x - y) for x, y in (neighbours if pairs == "neighbours" else every)]
        share = len(neighbours) / len(distances) if distances else 0
        return sum(terms) / sum(w.values()) + 0.3 * share * sum(distances)

    return twin


# Gradient-level methods


def direct(make: Callable[[], Any]) -> Callable[[], GradientTwin]:
    """Return how to make a twin that is TorchJD's aggregator itself."""

    def twin() -> GradientTwin:
        aggregator = make()

        def step(jacobian: Tensor, losses: Tensor) -> Tensor:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of the solver, about its speed
                result: Tensor = aggregator(jacobian)
            return result

        return step

    return twin


def drawn(make: Callable[[], Any], seed: int) -> Callable[[], GradientTwin]:
    """Return how to make a twin whose global draws are seeded from a generator in every step."""

    def twin() -> GradientTwin:
        inner, draws = direct(make)(), torch.Generator().manual_seed(seed)

        def step(jacobian: Tensor, losses: Tensor) -> Tensor:
            torch.manual_seed(int(torch.randint(2**62, (), generator=draws)))
            return inner(jacobian, losses)

        return step

    return twin


def mgda(normalizers: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], GradientTwin]:
    def step(jacobian: Tensor, losses: Tensor) -> Tensor:
        return shortest_vector(jacobian / normalizers(jacobian.norm(dim=1), losses)[:, None])

    return lambda: step


def shortest_vector(rows: Tensor) -> Tensor:
    """Return the shortest vector in the convex hull of rows that are independent."""
    return weights_of_the_shortest(rows @ rows.T) @ rows


def weights_of_the_shortest(gramian: Tensor) -> Tensor:
    """Return the weights of the shortest vector, found by quadprog, which needs a Gramian that can be inverted."""
    tasks = len(gramian)
    bounds = np.column_stack([np.ones(tasks), np.eye(tasks)])  # the weights add up to one, and none is negative
    scaled = (gramian / gramian.diagonal().min()).numpy()
    weights, *_ = solve_qp(scaled, np.zeros(tasks), bounds, np.eye(1 + tasks)[0], meq=1)
    found: Tensor = torch.from_numpy(weights)
    return found


def best_worst_task(jacobian: Tensor, c: float) -> Tensor:
    """Return the best direction for the worst task in CAGrad's ball, found by a general convex solver."""
    scale = jacobian.norm().item()
    g = jacobian.numpy() / scale
    mean, d, worst = g.mean(0), cp.Variable(g.shape[1]), cp.Variable()
    ball = cp.SOC(c * np.linalg.norm(mean), d - mean)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-14)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an accuracy that is less than this
        problem: Any = cp.Problem(cp.Maximize(worst), [g @ d >= worst, ball])
        problem.solve(cp.CLARABEL, **tight)
    found: Tensor = torch.as_tensor(d.value) * scale
    return found


def cagrad(c: float, divisor: float = 1.0) -> Callable[[], GradientTwin]:
    return lambda: lambda jacobian, losses: best_worst_task(jacobian, c) / divisor


def gradnorm() -> GradientTwin:
    """The weights of a run whose optimizer is plain descent with the rate of these tests, in its first epoch."""
    p = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    seen: list[Tensor] = []

    def step(jacobian: Tensor, losses: Tensor) -> Tensor:
        seen.append(losses)
        rate = losses / torch.stack(seen).mean(0)
        w = 3 * torch.softmax(p, 0)
        norms = w * jacobian.norm(dim=1)
        target = norms.mean().detach() * (rate / rate.mean()) ** 1.5
        (gradient,) = torch.autograd.grad((norms - target).abs().sum(), p)
        direction = w.detach() @ jacobian
        with torch.no_grad():
            p.sub_(RATE * gradient)
        return direction

    return step


def db_mtl() -> GradientTwin:
    averages: list[Tensor] = []

    def step(jacobian: Tensor, losses: Tensor) -> Tensor:
        g = jacobian / losses[:, None]
        averages.append(0.7 * averages[-1] + 0.3 * g if averages else g)
        norms = averages[-1].norm(dim=1)
        return sum((norms.max() / n * row for n, row in zip(norms, averages[-1], strict=True)), torch.zeros_like(g[0]))

    return step


def fair_weights(gramian: Tensor, p: float = 1.0) -> Tensor:
    """Return the w > 0 with G w = w^-p, found by SciPy's general solver in the logarithms of the weights."""
    lengths = gramian.diagonal().sqrt().numpy()
    sizes, exponents = gramian.numpy() / lengths / lengths[:, None], (1 - p) / (1 + p)

    def residual(y: Any) -> Any:  # of x = w |g|^(2 / (1 + p)): x_i^p sum_j C_ij (|g_j| / |g_i|)^e x_j - 1
        x = np.exp(y)
        return x**p * (sizes @ (x * lengths**-exponents)) * lengths**exponents - 1

    found = root(residual, np.zeros(len(lengths)), method="lm", tol=1e-15, options={"maxiter": 100_000})
    assert np.abs(residual(found.x)).max() < 1e-10
    return torch.from_numpy(np.exp(found.x) * lengths ** (-2 / (1 + p)))


def fairgrad(alpha: float) -> Callable[[], GradientTwin]:
    return lambda: lambda jacobian, losses: fair_weights(jacobian @ jacobian.T, 1 / alpha) @ jacobian


def nash(max_norm: float = 1.0, update_every: int = 1) -> Callable[[], GradientTwin]:
    def twin() -> GradientTwin:
        found: list[Tensor] = []

        def step(jacobian: Tensor, losses: Tensor) -> Tensor:
            due = len(found) % update_every == 0
            found.append(fair_weights(jacobian @ jacobian.T) if due else found[-1])
            d = found[-1] @ jacobian
            return d * min(1.0, max_norm / d.norm().item()) if max_norm else d

        return step

    return twin
