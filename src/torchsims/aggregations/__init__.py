"""Gradient-level methods: each turns the gradients of the tasks into one direction, with one backward pass per task.

A method is a module. It takes a matrix with one row per task and returns the direction to descend along:

    >>> import torch
    >>> from torchsims.aggregations import MGDA, UPGrad
    >>> jacobian = torch.tensor([[2.0, 0.0], [-1.0, 1.0]])
    >>> MGDA()(jacobian), UPGrad()(jacobian)
    (tensor([0.2000, 0.6000]), tensor([0.5001, 0.9999]))

A task without labels in a batch is left out, whatever its row holds:

    >>> MGDA()(torch.tensor([[1.0, 2.0], [torch.nan, 0.0]]), labelled=torch.tensor([True, False]))
    tensor([1., 2.])

:class:`~torchsims.Aggregated` makes the gradients, from log losses with ``transform=Log()``, and keeps track of epochs,
parameters and ranks. All but :class:`MGDA`, :class:`CAGrad`, :class:`UPGrad`, :class:`NashMTL`, :class:`FairGrad`,
:class:`GradNorm` and :class:`DBMTL` use TorchJD, the extra ``[gradient]``.
"""

from torchsims.aggregations._aligned_mtl import AlignedMTL
from torchsims.aggregations._base import Aggregation, WeightedAggregation
from torchsims.aggregations._cagrad import CAGrad
from torchsims.aggregations._config import ConFIG
from torchsims.aggregations._db_mtl import DBMTL
from torchsims.aggregations._fairgrad import FairGrad
from torchsims.aggregations._from_torchjd import from_torchjd
from torchsims.aggregations._graddrop import GradDrop
from torchsims.aggregations._gradnorm import GradNorm
from torchsims.aggregations._gradvac import GradVac
from torchsims.aggregations._imtl_g import IMTLG
from torchsims.aggregations._mgda import MGDA
from torchsims.aggregations._nash_mtl import NashMTL
from torchsims.aggregations._pcgrad import PCGrad
from torchsims.aggregations._upgrad import UPGrad

__all__ = [
    "DBMTL",
    "IMTLG",
    "MGDA",
    "Aggregation",
    "AlignedMTL",
    "CAGrad",
    "ConFIG",
    "FairGrad",
    "GradDrop",
    "GradNorm",
    "GradVac",
    "NashMTL",
    "PCGrad",
    "UPGrad",
    "WeightedAggregation",
    "from_torchjd",
]
