"""The methods of the paper's toy experiments by name, with the settings that its text leaves open, and their runs.

Both learning rates are equal, as in the paper's appendix. Two equal copies then stay equal for ever and every weight
stays one half: FOOPS is EW, and SIMS would be the descent of GLS. SIMS starts its challenger a little away; so that the
comparison is fair, there is FOOPS with the same perturbation too. Gradient-level methods have the defaults of
:mod:`torchsims.aggregations`.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from torchsims.problems import Toy
from torchsims.scalarizations import EW, GLS, STCH
from torchsims.synthetic.directions import DBMTL, GradNorm, Stateless
from torchsims.synthetic.outcomes import Outcome
from torchsims.synthetic.rows import Method, Saddle, run_rows
from torchsims.synthetic.two_tasks import cagrad, fairgrad, mgda, nash_mtl, pcgrad
from torchsims.transforms import Identity

__all__ = [
    "FIXED",
    "LABELS",
    "LR",
    "METHODS",
    "PASSES",
    "PERTURB",
    "SCALES",
    "STOP_DISTANCE",
    "Progress",
    "ToySettings",
    "offset",
    "run_toy",
    "toy",
]

LABELS = {
    "ew": "EW",
    "gls": "GLS",
    "stch": "STCH",
    "foops": "FOOPS",
    "foops-perturbed": "FOOPS perturbed",
    "sims": "SIMS",
    "mgda": "MGDA",
    "pcgrad": "PCGrad",
    "cagrad": "CAGrad",
    "nashmtl": "Nash-MTL",
    "fairgrad": "FairGrad",
    "gradnorm": "GradNorm",
    "dbmtl": "DB-MTL",
}
PASSES = {
    **dict.fromkeys(("ew", "gls", "stch"), "1 + 1"),
    **dict.fromkeys(("foops", "foops-perturbed", "sims"), "2 + 2"),
    **dict.fromkeys(("mgda", "pcgrad", "cagrad", "nashmtl", "fairgrad", "gradnorm", "dbmtl"), "1 + 2"),
}
"""Forward + backward passes per step with two tasks, by name."""
SCALES = ((1.0, 0.1), (0.1, 1.0))
"""The two scalings of the losses in Fig. 1."""
LR = 1e-3
STOP_DISTANCE = 0.05
STCH_MU = 0.1
FOOPS_TAU = 1.0
PERTURB = 0.05  # distance of the challenger from the model at the start, in every coordinate
FIXED = {"rate": LR, "stop": STOP_DISTANCE, "perturb": PERTURB, "stch_mu": STCH_MU, "foops_tau": FOOPS_TAU}
"""What the page says about settings that cannot be chosen."""

METHODS: dict[str, Callable[[float, Tensor], Method]] = {
    "ew": lambda tau, offset: EW(),
    "gls": lambda tau, offset: GLS(),
    "stch": lambda tau, offset: STCH(mu=STCH_MU),
    "foops": lambda tau, offset: Saddle(tau=FOOPS_TAU, transform=Identity()),
    "foops-perturbed": lambda tau, offset: Saddle(tau=FOOPS_TAU, transform=Identity(), offset=offset),
    "sims": lambda tau, offset: Saddle(tau=tau, offset=offset),
    "mgda": lambda tau, offset: Stateless(mgda),
    "pcgrad": lambda tau, offset: Stateless(pcgrad),
    "cagrad": lambda tau, offset: Stateless(cagrad),
    "nashmtl": lambda tau, offset: Stateless(nash_mtl),
    "fairgrad": lambda tau, offset: Stateless(fairgrad),
    "gradnorm": lambda tau, offset: GradNorm(),
    "dbmtl": lambda tau, offset: DBMTL(),
}
"""Methods by name, given the temperature of SIMS and the offset of the challenger."""

Progress: TypeAlias = Callable[[str, int], Callable[[int], None]]


def offset(seed: int, dimension: int = 2) -> Tensor:
    """Return the offset of the challenger from the model at the start: that of ``SIMS(..., perturb=0.05, seed=seed)``.

    Example:
        >>> offset(1)
        tensor([0.0500, 0.0500], dtype=torch.float64)
    """
    coins = torch.randint(2, (dimension,), generator=torch.Generator().manual_seed(seed))
    return PERTURB * (2.0 * coins.double() - 1)


def toy(variant: str) -> Toy:
    """Return the toy problem; the name of the variant is checked by the problem itself."""
    return Toy(variant)  # type: ignore[arg-type]


class ToySettings(Protocol):
    """What the runs of an experiment on the toy problem have in common."""

    @property
    def methods(self) -> tuple[str, ...]:
        """Keys of :data:`METHODS`."""

    @property
    def variant(self) -> str:
        """Variant of the toy problem."""

    @property
    def tau(self) -> float:
        """Temperature of SIMS."""

    @property
    def steps(self) -> int:
        """Largest number of steps per run."""

    @property
    def compiled(self) -> bool:
        """Whether to compile the steps."""


def run_toy(
    settings: ToySettings, starts: Tensor, scale: Tensor, offset: Tensor, *, record_every: int, progress: Progress
) -> dict[str, Outcome]:
    """Run several methods on the toy problem, each from all starts at once.

    Args:
        settings: the methods and what they have in common.
        starts: one row per run, `runs x 2`.
        scale: factors of the losses, `runs x 2`.
        offset: offset of the challenger, `2` or `runs x 2`.
        record_every: steps between two entries of the recorded paths.
        progress: starts a part of the work and returns what to call with the number of steps done.

    Example:
        >>> from types import SimpleNamespace
        >>> settings = SimpleNamespace(methods=("ew", "sims"), variant="paper", tau=0.015, steps=2, compiled=False)
        >>> silent = lambda name, total: lambda done: None
        >>> found = run_toy(settings, Toy().starts, torch.ones(5, 2), offset(0), record_every=1, progress=silent)
        >>> found["sims"].path.shape
        torch.Size([3, 5, 2])
    """
    return {
        name: run_rows(
            toy(settings.variant),
            METHODS[name](settings.tau, offset),
            starts,
            scale=scale,
            steps=settings.steps,
            lr=LR,
            stop_distance=STOP_DISTANCE,
            record_every=record_every,
            compiled=settings.compiled,
            progress=progress(LABELS[name], settings.steps + 1),
        )
        for name in settings.methods
    }
