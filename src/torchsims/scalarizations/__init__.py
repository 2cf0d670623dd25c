"""Loss-level methods: each turns the losses of a step into one objective."""

from torchsims.scalarizations._base import Scalarization
from torchsims.scalarizations._ew import EW
from torchsims.scalarizations._log_merit import LogMerit

__all__ = ["EW", "LogMerit", "Scalarization"]
