"""The methods of the paper's toy experiments by name, with the settings that its text leaves open, and their runs.

Both learning rates are equal, as in the paper's appendix. Two equal copies then stay equal for ever and every weight
stays one half: FOOPS is EW, and SIMS would be the descent of GLS. SIMS starts its challenger a little away; so that the
comparison is fair, there is FOOPS with the same perturbation too. Gradient-level methods have the defaults of
:mod:`torchsims.aggregations`.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from torchsims.problems import Toy
from torchsims.reporting import Progress
from torchsims.scalarizations import EW, GLS, STCH
from torchsims.synthetic.directions import DBMTL, GradNorm, Stateless
from torchsims.synthetic.outcomes import Outcome
from torchsims.synthetic.rows import Method, Saddle, run_rows
from torchsims.synthetic.two_tasks import cagrad, fairgrad, mgda, nash_mtl, pcgrad
from torchsims.transforms import Identity

SCALES = ((1.0, 0.1), (0.1, 1.0))
"""The two scalings of the losses in Fig. 1."""
LR = 1e-3
STOP_DISTANCE = 0.05
STCH_MU = 0.1
FOOPS_TAU = 1.0
PERTURB = 0.05  # distance of the challenger from the model at the start, in every coordinate
FIXED = {"rate": LR, "stop": STOP_DISTANCE, "perturb": PERTURB, "stch_mu": STCH_MU, "foops_tau": FOOPS_TAU}
"""What the page says about settings that cannot be chosen."""


class ToyMethod(NamedTuple):
    """A method of the toy experiments, as tables and figures show it."""

    label: str
    passes: str  # forward + backward passes per step with two tasks
    colour: str
    make: Callable[[float, Tensor], Method]  # from the temperature of SIMS and the offset of the challenger
    dashes: str = "-"


METHODS = {
    "ew": ToyMethod("EW", "1 + 1", "#0072b2", lambda tau, offset: EW()),
    "gls": ToyMethod("GLS", "1 + 1", "#009e73", lambda tau, offset: GLS()),
    "stch": ToyMethod("STCH", "1 + 1", "#cc79a7", lambda tau, offset: STCH(mu=STCH_MU)),
    "foops": ToyMethod(  # lies on EW
        "FOOPS", "2 + 2", "#e69f00", lambda tau, offset: Saddle(tau=FOOPS_TAU, transform=Identity()), "--"
    ),
    "foops-perturbed": ToyMethod(
        "FOOPS perturbed",
        "2 + 2",
        "#7f5539",
        lambda tau, offset: Saddle(tau=FOOPS_TAU, transform=Identity(), offset=offset),
        ":",
    ),
    "sims": ToyMethod("SIMS", "2 + 2", "#d55e00", lambda tau, offset: Saddle(tau=tau, offset=offset)),
    "mgda": ToyMethod("MGDA", "1 + 2", "#56b4e9", lambda tau, offset: Stateless(mgda)),
    "pcgrad": ToyMethod("PCGrad", "1 + 2", "#332288", lambda tau, offset: Stateless(pcgrad)),
    "cagrad": ToyMethod("CAGrad", "1 + 2", "#117733", lambda tau, offset: Stateless(cagrad)),
    "nashmtl": ToyMethod("Nash-MTL", "1 + 2", "#882255", lambda tau, offset: Stateless(nash_mtl)),
    "fairgrad": ToyMethod("FairGrad", "1 + 2", "#999933", lambda tau, offset: Stateless(fairgrad), "--"),  # on Nash-MTL
    "gradnorm": ToyMethod("GradNorm", "1 + 2", "#000000", lambda tau, offset: GradNorm()),
    "dbmtl": ToyMethod("DB-MTL", "1 + 2", "#aa4499", lambda tau, offset: DBMTL()),
}


def offset(seed: int, dimension: int = 2) -> Tensor:
    """Return the offset of the challenger from the model at the start: that of ``SIMS(..., perturb=0.05, seed=seed)``.

    Example:
        >>> offset(1)
        tensor([0.0500, 0.0500], dtype=torch.float64)
    """
    coins = torch.randint(2, (dimension,), generator=torch.Generator().manual_seed(seed))
    return PERTURB * (2.0 * coins.double() - 1)


def scaled_runs(starts: Sequence[Sequence[float]]) -> tuple[Tensor, Tensor]:
    """Return factors of the losses and starting points, one row per run: both scalings from every start."""
    runs = product(SCALES, starts)
    scale, points = (torch.tensor(column, dtype=torch.float64) for column in zip(*runs, strict=True))
    return scale, points


def toy(variant: str) -> Toy:
    """Return the toy problem; the name of the variant is checked by the problem itself."""
    return Toy(variant)  # type: ignore[arg-type]


class ToySettings(Protocol):
    """What the runs of an experiment on the toy problem have in common; ``tau`` is the temperature of SIMS."""

    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def variant(self) -> str: ...
    @property
    def tau(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def compiled(self) -> bool: ...


def run_toy(
    settings: ToySettings, starts: Tensor, scale: Tensor, offset: Tensor, *, record_every: int, progress: Progress
) -> dict[str, Outcome]:
    """Run methods on the toy problem, each from all starts at once; the offset is `2` or `runs x 2`."""
    return {
        name: run_rows(
            toy(settings.variant),
            METHODS[name].make(settings.tau, offset),
            starts,
            scale=scale,
            steps=settings.steps,
            lr=LR,
            stop_distance=STOP_DISTANCE,
            record_every=record_every,
            compiled=settings.compiled,
            progress=progress(METHODS[name].label, settings.steps + 1),
        )
        for name in settings.methods
    }
