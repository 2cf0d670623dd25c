"""The one table of methods. Formulas, laws, contracts, checkpoints, failures and ranks all read it.

A new method needs one line here: a case in `LOSS_LEVEL` or `GRADIENT_LEVEL` with its twin from `helpers.twins`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import pytest
import torch
import torchjd.aggregation as jd
import torchjd.scalarization as jds
from torch import nn
from torchjd.linalg import QuadprogProjector

from helpers import twins
from helpers.support import TASKS, sgd
from helpers.twins import cagrad, direct, drawn, fairgrad, mgda, nash
from torchsims import FOOPS, SIMS, Aggregated, Scalarized, Stepper, scalarizations
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
from torchsims.normalizers import EMA, EpochWise, Fixed, Normalizer
from torchsims.scalarizations import (
    DWA,
    EW,
    FAMO,
    GLS,
    IMTLL,
    LDCMTL,
    PBI,
    RLW,
    SLAW,
    STCH,
    UW,
    UWSO,
    Chebyshev,
    FixedWeights,
    GO4Align,
    LogMerit,
    Scalarization,
)
from torchsims.transforms import Log

Tasks: TypeAlias = Sequence[str]

# Tasks of other names have the settings of these; see `pick`.
ALIASES = {"z": "a", "y": "b", "x": "c", "metres": "a", "pixels": "b", "left": "a", "right": "b"}


def pick(values: Sequence[float], tasks: Tasks) -> list[float]:
    """Return the values of some tasks, in their order."""
    return [values[TASKS.index(ALIASES.get(task, task))] for task in tasks]


def start(tasks: Tasks) -> torch.Tensor:
    return torch.tensor(pick(twins.START, tasks), dtype=torch.float64)


def preference(tasks: Tasks) -> dict[str, float]:
    return dict(zip(tasks, pick(twins.PREFERENCE, tasks), strict=True))


@dataclass(frozen=True)
class LossLevel:
    """A loss-level method with settings away from its defaults.

    Attributes:
        method: the name of its class.
        make: makes it for tasks of these names.
        twin: the same, slowly.
        option: what tells this case from others of the same class.
        units: what the units of the losses change: the weights, the length of a step only, or nothing.
        ordered: whether its weights depend on the order of the tasks.
        weights: its weights, if it holds them constant although they depend on the losses.
    """

    method: str
    make: Callable[[Tasks], Scalarization]
    twin: twins.LossTwin
    option: str = ""
    units: Literal["weights", "length", "nothing"] = "weights"
    ordered: bool = False
    weights: twins.Weights | None = None

    @property
    def name(self) -> str:
        return self.method + self.option


def held(
    method: str, make: Callable[[Tasks], Scalarization], weights: twins.Weights, option: str = "", **named: Any
) -> LossLevel:
    return LossLevel(method, make, twins.weighted(weights), option, weights=weights, **named)


def ldc_mtl(normalize: Literal["log", "ratio"], pairs: Literal["neighbours", "all"], option: str = "") -> LossLevel:
    def make(tasks: Tasks) -> LDCMTL:
        settings: Any = {"start": start(tasks), "dtype": torch.float64}
        return LDCMTL(tasks, penalty=0.3, normalize=normalize, pairs=pairs, **settings)

    units: Any = "nothing" if normalize == "log" else "length"
    twin = twins.ldc_mtl(normalize, pairs)
    return LossLevel("LDCMTL", make, twin, option, units, ordered=pairs == "neighbours")


LOSS_LEVEL = [
    LossLevel("EW", lambda tasks: EW(), twins.ew),
    LossLevel(
        "FixedWeights",
        lambda tasks: FixedWeights(dict(zip(tasks, pick(twins.WEIGHTS, tasks), strict=True)), tasks),
        twins.fixed_weights,
    ),
    LossLevel("RLW", lambda tasks: RLW(seed=3), twins.rlw, ordered=True),
    LossLevel("UW", lambda tasks: UW(tasks, start=start(tasks), dtype=torch.float64), twins.uw),
    LossLevel("IMTLL", lambda tasks: IMTLL(tasks, start=start(tasks), dtype=torch.float64), twins.imtl_l),
    LossLevel("DWA", lambda tasks: DWA(temperature=0.7), twins.dwa),
    LossLevel("GLS", lambda tasks: GLS(), twins.gls, units="length"),
    LossLevel(
        "GLS", lambda tasks: GLS(preference=preference(tasks), tasks=tasks), twins.gls_preferred, "-preferred", "length"
    ),
    LossLevel("STCH", lambda tasks: STCH(0.7), twins.stch),
    LossLevel(
        "STCH", lambda tasks: STCH(0.7, preference=preference(tasks), tasks=tasks), twins.stch_preferred, "-preferred"
    ),
    LossLevel(
        "STCH",
        lambda tasks: STCH(0.7, normalize=True, warmup_epochs=2, preference=preference(tasks), tasks=tasks),
        twins.stch_normalized(2, twins.PREFERENCE),
        "-preferred-normalized",
        "nothing",
    ),
    LossLevel(
        "STCH",
        lambda tasks: STCH(0.7, weights=pick(twins.WEIGHTS, tasks), ideal=pick(twins.IDEAL, tasks)),
        twins.stch_weighted,
        "-weighted",
    ),
    LossLevel(
        "STCH",
        lambda tasks: STCH(0.7, normalize=True, warmup_epochs=2),
        twins.stch_normalized(2),
        "-normalized",
        "nothing",
    ),
    LossLevel("STCH", lambda tasks: STCH(0.7, normalize=True, warmup_epochs=9), twins.stch_warmup, "-warmup", "length"),
    LossLevel(
        "STCH",
        lambda tasks: STCH(0.7, normalize=True, warmup_epochs=0),
        twins.stch_normalized(0),
        "-at-once",
        "nothing",
    ),
    LossLevel("Chebyshev", lambda tasks: Chebyshev(), twins.chebyshev),
    LossLevel(
        "Chebyshev",
        lambda tasks: Chebyshev(pick(twins.WEIGHTS, tasks), pick(twins.IDEAL, tasks)),
        twins.chebyshev_weighted,
        "-weighted",
    ),
    LossLevel("PBI", lambda tasks: PBI(3.0), twins.pbi((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))),
    LossLevel(
        "PBI",
        lambda tasks: PBI(3.0, ideal=pick(twins.IDEAL, tasks), preference=preference(tasks), tasks=tasks),
        twins.pbi(twins.PREFERENCE, twins.IDEAL),
        "-preferred",
    ),
    LossLevel("FAMO", lambda tasks: FAMO(gamma=0.01, lr=0.3), twins.famo, units="length"),
    LossLevel("LogMerit", lambda tasks: LogMerit(0.7, decay=0.6), twins.log_merit(0.0), units="nothing"),
    LossLevel(
        "LogMerit",
        lambda tasks: LogMerit(0.7, decay=0.6, augment=0.2),
        twins.log_merit(0.2),
        "-augmented",
        "nothing",
    ),
    ldc_mtl("log", "neighbours"),
    ldc_mtl("log", "all", "-all"),
    ldc_mtl("ratio", "neighbours", "-ratio"),
    held("SLAW", lambda tasks: SLAW(decay=2 / 3), twins.slaw, units="length"),
    held("UWSO", lambda tasks: UWSO(40.0), twins.uw_so),
    held("GO4Align", lambda tasks: GO4Align(2, step_size=0.02), twins.go4align(2)),
    held("GO4Align", lambda tasks: GO4Align(3, step_size=0.02), twins.go4align(3), "-three"),
    held("GO4Align", lambda tasks: GO4Align(1, step_size=0.02), twins.go4align(1), "-one"),
    LossLevel(
        "LogMerit",
        lambda tasks: LogMerit(0.7, preference=preference(tasks), tasks=tasks),
        twins.log_merit_preferred,
        "-preferred",
        "nothing",
    ),
    LossLevel(
        "LogMerit",
        lambda tasks: LogMerit(0.7, decay=0.6, floor=twins.FLOOR),
        twins.log_merit_floored,
        "-floored",
        "nothing",
    ),
]


@dataclass(frozen=True)
class GradientLevel:
    """A gradient-level method; attributes as in `LossLevel`, and how far directions may differ."""

    method: str
    make: Callable[[Tasks], Aggregation]
    twin: Callable[[], twins.GradientTwin]
    option: str = ""
    ordered: bool = False
    tolerance: float = field(default=1e-10, kw_only=True)

    @property
    def name(self) -> str:
        return self.method + self.option


def torchjd_case(option: str, make: Callable[[], Any], twin: Callable[[], Any], **options: Any) -> GradientLevel:
    return GradientLevel("from_torchjd", lambda tasks: from_torchjd(make()), direct(twin), option, **options)


GRADIENT_LEVEL = [
    GradientLevel("MGDA", lambda tasks: MGDA(), mgda(lambda norms, losses: torch.ones_like(norms))),
    GradientLevel("MGDA", lambda tasks: MGDA("loss"), mgda(lambda norms, losses: losses), "-loss"),
    GradientLevel("MGDA", lambda tasks: MGDA("norm"), mgda(lambda norms, losses: norms), "-norm"),
    GradientLevel("MGDA", lambda tasks: MGDA("loss+norm"), mgda(lambda norms, losses: losses * norms), "-loss+norm"),
    GradientLevel("PCGrad", lambda tasks: PCGrad(seed=3), drawn(jd.PCGrad, 3), ordered=True),
    GradientLevel("CAGrad", lambda tasks: CAGrad(0.4), cagrad(0.4), tolerance=1e-6),
    GradientLevel("CAGrad", lambda tasks: CAGrad(0.4, rescale=True), cagrad(0.4, 1.16), "-rescaled", tolerance=1e-6),
    GradientLevel("NashMTL", lambda tasks: NashMTL(), nash()),
    GradientLevel("NashMTL", lambda tasks: NashMTL(0.0, update_every=2), nash(0.0, 2), "-rarely"),
    GradientLevel("FairGrad", lambda tasks: FairGrad(), fairgrad(1.0)),
    GradientLevel("FairGrad", lambda tasks: FairGrad(2.0), fairgrad(2.0), "-2"),
    GradientLevel("AlignedMTL", lambda tasks: AlignedMTL(), direct(jd.AlignedMTL)),
    GradientLevel(
        "AlignedMTL", lambda tasks: AlignedMTL("rmse"), direct(lambda: jd.AlignedMTL(scale_mode="rmse")), "-rmse"
    ),
    GradientLevel("IMTLG", lambda tasks: IMTLG(), direct(jd.IMTLG)),
    GradientLevel("GradDrop", lambda tasks: GradDrop(seed=4), drawn(jd.GradDrop, 4)),
    GradientLevel(
        "GradDrop",
        lambda tasks: GradDrop(0.3, seed=4),
        drawn(lambda: jd.GradDrop(leak=torch.full((3,), 0.3, dtype=torch.float64)), 4),
        "-leaky",
    ),
    GradientLevel("GradVac", lambda tasks: GradVac(0.4, seed=5), drawn(lambda: jd.GradVac(beta=0.4), 5), ordered=True),
    GradientLevel("UPGrad", lambda tasks: UPGrad(), direct(jd.UPGrad)),
    GradientLevel(
        "UPGrad",
        lambda tasks: UPGrad(reg_eps=1e-6),
        direct(lambda: jd.UPGrad(projector=QuadprogProjector(reg_eps=1e-6))),
        "-exact",
    ),
    GradientLevel("ConFIG", lambda tasks: ConFIG(), direct(jd.ConFIG)),
    GradientLevel("GradNorm", lambda tasks: GradNorm(tasks, dtype=torch.float64), twins.gradnorm),
    GradientLevel("DBMTL", lambda tasks: DBMTL(0.7), twins.db_mtl),
    torchjd_case("-weighting", jd.MGDAWeighting, jd.MGDA),
    torchjd_case("-gramian", jd.DualProj, jd.DualProj),
    torchjd_case("-rows", jd.Mean, jd.Mean),
    torchjd_case("-aggregator", partial(jd.TrimmedMean, trim_number=1), partial(jd.TrimmedMean, trim_number=1)),
    GradientLevel(
        "from_torchjd",
        lambda tasks: from_torchjd(jd.Random(), seed=6),
        drawn(jd.Random, 6),
        "-random",
        ordered=True,
    ),
]
LOSSES = {case.name: case for case in LOSS_LEVEL}
GRADIENTS = {case.name: case for case in GRADIENT_LEVEL}
every_loss_level = pytest.mark.parametrize("case", LOSS_LEVEL, ids=lambda case: case.name)
every_gradient_level = pytest.mark.parametrize("case", GRADIENT_LEVEL, ids=lambda case: case.name)

# Steppers

Maker: TypeAlias = Callable[..., Stepper[Any]]
"""Makes a stepper: ``make(model, tasks=TASKS, **options)``."""


def two_copies(kind: type[SIMS], **fixed: Any) -> Maker:
    def make(model: nn.Module, tasks: Tasks = TASKS, **options: Any) -> SIMS:
        return kind(model, **{"tau": 0.5, "outer": sgd(0.02), "inner": sgd(0.1), **fixed, **options})

    return make


def scalarized(make_method: Callable[[Tasks], nn.Module], normalizer: Callable[[], Normalizer] | None = None) -> Maker:
    def make(model: nn.Module, tasks: Tasks = TASKS, **options: Any) -> Scalarized:
        normalize = None if normalizer is None else normalizer()
        return Scalarized(model, make_method(tasks), **{"outer": sgd(0.02), "normalize": normalize, **options})

    return make


def aggregated(name: str, normalizer: Callable[[], Normalizer] | None = None, **fixed: Any) -> Maker:
    def make(model: nn.Module, tasks: Tasks = TASKS, **options: Any) -> Aggregated:
        normalize = None if normalizer is None else normalizer()
        settings = {"outer": sgd(0.02), "normalize": normalize, **fixed, **options}
        return Aggregated(model, GRADIENTS[name].make(tasks), **settings)

    return make


def preferred(model: nn.Module, tasks: Tasks = TASKS, **options: Any) -> Stepper[Any]:
    return two_copies(SIMS)(model, tasks, preference=preference(tasks), **options)


TWO_COPIES: dict[str, Maker] = {
    "SIMS": two_copies(SIMS),
    "SIMS preferred": preferred,
    "SIMS joint": two_copies(SIMS, evaluation="joint"),
    "SIMS alternating": two_copies(SIMS, order="alternating"),
    "SIMS alternating joint": two_copies(SIMS, order="alternating", evaluation="joint"),
    "FOOPS": two_copies(FOOPS),
}
SCALARIZED: dict[str, Maker] = {
    **{case.name: scalarized(case.make) for case in LOSS_LEVEL if case.option in ("", "-normalized")},
    "STCH of TorchJD": scalarized(lambda tasks: jds.STCH(0.7)),
    "Random of TorchJD": scalarized(lambda tasks: scalarizations.from_torchjd(jds.Random(), seed=2)),
}
STEPPERS: dict[str, Maker] = {
    **TWO_COPIES,
    **SCALARIZED,
    "EW on fixed units": scalarized(LOSSES["EW"].make, partial(Fixed, 1)),
    "EW on epoch-wise units": scalarized(LOSSES["EW"].make, EpochWise),
    "EW on averaged units": scalarized(LOSSES["EW"].make, EMA),
    **{case.name: aggregated(case.name) for case in GRADIENT_LEVEL if not case.option},
    "CAGrad of logarithms": aggregated("CAGrad", transform=Log()),
    "MGDA in chunks": aggregated("MGDA", chunk=2),
    "MGDA on averaged units": aggregated("MGDA", EMA),
    "MGDA every 3 steps": aggregated("MGDA", every=3),
}
"""Every method in its stepper, by name."""


def is_ordered(name: str) -> bool:
    """Return whether a method depends on the order of the tasks."""
    case = LOSSES.get(name) or GRADIENTS.get(name)
    return name == "Random of TorchJD" or (case is not None and case.ordered)


def tolerance(name: str) -> float:
    """Return how far results of a method may differ by rounding."""
    case = GRADIENTS.get(name.split()[0])
    return 1e-12 if case is None else case.tolerance
