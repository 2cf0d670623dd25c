"""The methods of the paper's toy experiments, with the settings that its text leaves open.

Both rates are equal, as in the paper's appendix. Two equal copies then stay equal for ever and every weight stays one
half: FOOPS is EW, and SIMS would be the descent of GLS. SIMS starts its challenger a little away; so that the
comparison is fair, there is FOOPS with the same perturbation too. Gradient-level methods have the defaults
of :mod:`torchsims.aggregations`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from torchsims.experiments._directions import DBMTL, GradNorm, Memoryless
from torchsims.experiments._runs import Method, Saddle
from torchsims.experiments._toy_directions import cagrad, fairgrad, mgda, nash_mtl, pcgrad
from torchsims.scalarizations import EW, GLS, STCH
from torchsims.transforms import Identity

__all__ = ["FOOPS_TAU", "LABELS", "METHODS", "PASSES", "PERTURB", "STCH_MU", "offset"]

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
"""By name: the forward + backward passes of a step with two tasks."""
STCH_MU = 0.1
FOOPS_TAU = 1.0
PERTURB = 0.05  # how far the challenger starts from the model in every coordinate

METHODS: dict[str, Callable[[float, Tensor], Method]] = {
    "ew": lambda tau, offset: EW(),
    "gls": lambda tau, offset: GLS(),
    "stch": lambda tau, offset: STCH(mu=STCH_MU),
    "foops": lambda tau, offset: Saddle(tau=FOOPS_TAU, transform=Identity()),
    "foops-perturbed": lambda tau, offset: Saddle(tau=FOOPS_TAU, transform=Identity(), offset=offset),
    "sims": lambda tau, offset: Saddle(tau=tau, offset=offset),
    "mgda": lambda tau, offset: Memoryless(mgda),
    "pcgrad": lambda tau, offset: Memoryless(pcgrad),
    "cagrad": lambda tau, offset: Memoryless(cagrad),
    "nashmtl": lambda tau, offset: Memoryless(nash_mtl),
    "fairgrad": lambda tau, offset: Memoryless(fairgrad),
    "gradnorm": lambda tau, offset: GradNorm(),
    "dbmtl": lambda tau, offset: DBMTL(),
}
"""By name: the method, given the temperature of SIMS and the offset of the challenger."""


def offset(seed: int, dimension: int = 2) -> Tensor:
    """Return where the challenger starts, less where the model does: as ``SIMS(..., perturb=0.05, seed=seed)`` has it.

    Example:
        >>> offset(1)
        tensor([0.0500, 0.0500], dtype=torch.float64)
    """
    coins = torch.randint(2, (dimension,), generator=torch.Generator().manual_seed(seed))
    return PERTURB * (2.0 * coins.double() - 1)
