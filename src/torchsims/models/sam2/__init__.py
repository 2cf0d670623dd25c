"""The paper's model: a frozen SAM2.1 image encoder with LoRA, and one mask decoder per task. Needs ``[vision]``."""

from torchsims.models.sam2.configs import SIZES, sam2_config
from torchsims.models.sam2.model import SAM2MTL

__all__ = ["SAM2MTL", "SIZES", "sam2_config"]
