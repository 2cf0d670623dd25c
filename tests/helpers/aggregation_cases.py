"""The gradient-level methods under test, each with a twin: TorchJD called on the whole Jacobian, or the formula."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torchjd.aggregation as jd
from torch import Tensor
from torchjd.linalg import QuadprogProjector

from helpers.support import TASKS
from torchsims import aggregations
from torchsims.aggregations import (
    DBMTL,
    IMTLG,
    MGDA,
    Aggregation,
    AlignedMTL,
    CAGrad,
    ConFIG,
    FairGrad,
    GradDrop,
    GradNorm,
    GradVac,
    NashMTL,
    PCGrad,
    UPGrad,
    from_torchjd,
)

RATE = 0.02  # of the optimizer in these tests
Twin = Callable[[Tensor, Tensor], Tensor]  # gradients (task, column) and losses (task,) to the direction (column,)
"""A function with a memory, called once a step."""


@dataclass(frozen=True)
class Case:
    """A method and how to make its twin."""

    method: str
    make: Callable[[], Aggregation]
    twin: Callable[[], Twin]
    option: str = ""
    tags: frozenset[str] = field(default_factory=frozenset)

    @property
    def tolerance(self) -> float:
        """How far directions may differ: the solver of Nash-MTL makes up to 1e-8 of a rounding error."""
        return 1e-7 if self.method == "NashMTL" else 1e-10

    @property
    def name(self) -> str:
        return self.method + self.option


def direct(make: Callable[[], Any]) -> Callable[[], Twin]:
    """Return how to make a twin that is TorchJD's aggregator itself."""

    def twin() -> Twin:
        aggregator = make()

        def step(jacobian: Tensor, losses: Tensor) -> Tensor:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of the solver, about its speed
                result: Tensor = aggregator(jacobian)
            return result

        return step

    return twin


def drawn(make: Callable[[], Any], seed: int) -> Callable[[], Twin]:
    """Return how to make a twin whose global draws are seeded from a generator in every step."""

    def twin() -> Twin:
        inner, draws = direct(make)(), torch.Generator().manual_seed(seed)

        def step(jacobian: Tensor, losses: Tensor) -> Tensor:
            torch.manual_seed(int(torch.randint(2**62, (), generator=draws)))
            return inner(jacobian, losses)

        return step

    return twin


def mgda(normalizers: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Twin]:
    def step(jacobian: Tensor, losses: Tensor) -> Tensor:
        return jd.MGDA()(jacobian / normalizers(jacobian.norm(dim=1), losses)[:, None])

    return lambda: step


def rescaled(jacobian: Tensor, losses: Tensor) -> Tensor:
    return jd.CAGrad(c=0.4)(jacobian) / 1.16


def gradnorm() -> Twin:
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


def db_mtl() -> Twin:
    averages: list[Tensor] = []

    def step(jacobian: Tensor, losses: Tensor) -> Tensor:
        g = jacobian / losses[:, None]
        averages.append(0.7 * averages[-1] + 0.3 * g if averages else g)
        norms = averages[-1].norm(dim=1)
        return sum((norms.max() / n * row for n, row in zip(norms, averages[-1], strict=True)), torch.zeros_like(g[0]))

    return step


def nash(**options: Any) -> Callable[[], Twin]:
    return direct(lambda: jd.NashMTL(n_tasks=3, **options))


CASES = [
    Case("MGDA", MGDA, mgda(lambda norms, losses: torch.ones_like(norms))),
    Case("MGDA", lambda: MGDA("loss"), mgda(lambda norms, losses: losses), "-loss"),
    Case("MGDA", lambda: MGDA("norm"), mgda(lambda norms, losses: norms), "-norm"),
    Case("MGDA", lambda: MGDA("loss+norm"), mgda(lambda norms, losses: losses * norms), "-loss+norm"),
    Case("PCGrad", lambda: PCGrad(seed=3), drawn(jd.PCGrad, 3), tags=frozenset({"ordered"})),
    Case("CAGrad", lambda: CAGrad(0.4), direct(lambda: jd.CAGrad(c=0.4))),
    Case("CAGrad", lambda: CAGrad(0.4, rescale=True), lambda: rescaled, "-rescaled"),
    Case("NashMTL", NashMTL, nash()),
    Case("NashMTL", lambda: NashMTL(0.0, update_every=2), nash(max_norm=0.0, update_weights_every=2), "-rarely"),
    Case("FairGrad", FairGrad, direct(lambda: jd.FairGrad(alpha=1.0))),
    Case("FairGrad", lambda: FairGrad(2.0), direct(lambda: jd.FairGrad(alpha=2.0)), "-2"),
    Case("AlignedMTL", AlignedMTL, direct(jd.AlignedMTL)),
    Case("AlignedMTL", lambda: AlignedMTL("rmse"), direct(lambda: jd.AlignedMTL(scale_mode="rmse")), "-rmse"),
    Case("IMTLG", IMTLG, direct(jd.IMTLG)),
    Case("GradDrop", lambda: GradDrop(seed=4), drawn(jd.GradDrop, 4)),
    Case(
        "GradDrop",
        lambda: GradDrop(0.3, seed=4),
        drawn(lambda: jd.GradDrop(leak=torch.full((3,), 0.3, dtype=torch.float64)), 4),
        "-leaky",
    ),
    Case("GradVac", lambda: GradVac(0.4, seed=5), drawn(lambda: jd.GradVac(beta=0.4), 5), tags=frozenset({"ordered"})),
    Case("UPGrad", UPGrad, direct(jd.UPGrad)),
    Case(
        "UPGrad",
        lambda: UPGrad(reg_eps=1e-6),
        direct(lambda: jd.UPGrad(projector=QuadprogProjector(reg_eps=1e-6))),
        "-exact",
    ),
    Case("ConFIG", ConFIG, direct(jd.ConFIG)),
    Case("GradNorm", lambda: GradNorm(TASKS, dtype=torch.float64), gradnorm),
    Case("DBMTL", lambda: DBMTL(0.7), db_mtl),
    Case("from_torchjd", lambda: from_torchjd(jd.MGDAWeighting()), direct(jd.MGDA), "-weighting"),
    Case("from_torchjd", lambda: from_torchjd(jd.DualProj()), direct(jd.DualProj), "-gramian"),
    Case("from_torchjd", lambda: from_torchjd(jd.Mean()), direct(jd.Mean), "-rows"),
    Case(
        "from_torchjd",
        lambda: from_torchjd(jd.TrimmedMean(trim_number=1)),
        direct(lambda: jd.TrimmedMean(trim_number=1)),
        "-aggregator",
    ),
    Case(
        "from_torchjd",
        lambda: from_torchjd(jd.Random(), seed=6),
        drawn(jd.Random, 6),
        "-random",
        frozenset({"ordered"}),
    ),
]
BY_NAME = {case.name: case for case in CASES}
METHODS = sorted(set(aggregations.__all__) - {"Aggregation", "WeightedAggregation", "from_torchjd"})
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
