"""Loss-level methods: each turns the losses of a step into one objective, for one forward and one backward pass.

A method is a module. It takes the losses by name, in order, or stacked, and its objective is what to differentiate:

    >>> import torch
    >>> from torchsims.scalarizations import EW, GLS
    >>> losses = {"seg": torch.tensor(0.5), "depth": torch.tensor(200.0)}
    >>> EW()(losses), GLS()(losses)
    (tensor(100.2500), tensor(10.))

A task without labels in a batch is left out, whatever its entry holds:

    >>> EW()(torch.tensor([1.0, 3.0, torch.nan]), labelled=torch.tensor([True, True, False]))
    tensor(2.)

Leading dimensions are independent runs:

    >>> EW()(torch.tensor([[1.0, 4.0], [100.0, 400.0]]))
    tensor([  2.5000, 250.0000])

Methods that use epoch means (:class:`DWA`, :class:`STCH` normalised) need ``method.end_epoch()`` after each epoch,
:class:`FAMO` needs ``method.observe(losses)`` after each step, and the parameters of :class:`UW`, :class:`IMTLL` and
:class:`LDCMTL` belong in the optimizer. :class:`~torchsims.Scalarized` does all of this.
"""

from torchsims.scalarizations._base import Scalarization
from torchsims.scalarizations._chebyshev import Chebyshev
from torchsims.scalarizations._dwa import DWA
from torchsims.scalarizations._ew import EW
from torchsims.scalarizations._famo import FAMO
from torchsims.scalarizations._fixed_weights import FixedWeights
from torchsims.scalarizations._from_torchjd import from_torchjd
from torchsims.scalarizations._gls import GLS
from torchsims.scalarizations._go4align import GO4Align
from torchsims.scalarizations._imtl_l import IMTLL
from torchsims.scalarizations._ldc_mtl import LDCMTL
from torchsims.scalarizations._log_merit import LogMerit
from torchsims.scalarizations._pbi import PBI
from torchsims.scalarizations._rlw import RLW
from torchsims.scalarizations._slaw import SLAW
from torchsims.scalarizations._stch import STCH
from torchsims.scalarizations._uw import UW
from torchsims.scalarizations._uw_so import UWSO

__all__ = [
    "DWA",
    "EW",
    "FAMO",
    "GLS",
    "IMTLL",
    "LDCMTL",
    "PBI",
    "RLW",
    "SLAW",
    "STCH",
    "UW",
    "UWSO",
    "Chebyshev",
    "FixedWeights",
    "GO4Align",
    "LogMerit",
    "Scalarization",
    "from_torchjd",
]
