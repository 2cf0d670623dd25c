"""Networks and losses for tables: one prediction per row and task, from numbers and codes of categories."""

from torchsims.models.tabular.base import TabularNetwork
from torchsims.models.tabular.esmm import ESMM
from torchsims.models.tabular.losses import class_loss, number_loss
from torchsims.models.tabular.mlp import MLP
from torchsims.models.tabular.mmoe import MMoE
from torchsims.models.tabular.ple import PLE
from torchsims.models.tabular.shared_bottom import SharedBottom

__all__ = ["ESMM", "MLP", "PLE", "MMoE", "SharedBottom", "TabularNetwork", "class_loss", "number_loss"]
