"""Hard parameter sharing for dense prediction."""

from collections.abc import Mapping
from typing import final

from torch import Tensor, nn

from torchsims.models.dense.blocks import GROUP_CHANNELS, Head, Trunk
from torchsims.models.outputs import check_outputs


@final
class HPS(nn.Module):
    """Hard parameter sharing: one encoder-decoder for all tasks, and one small head per task.

    The usual network of NYUv2 is a dilated ResNet-50; this one is small enough for two cores. It uses GroupNorm,
    because batch statistics would make the prediction of an image depend on the other images and ranks.

    Args:
        outputs: channels of the prediction, by task.
        width: channels of the features before the heads, a multiple of 8.

    Example:
        >>> import torch
        >>> from torchsims.models import HPS
        >>> model = HPS({"seg": 8, "depth": 1, "normals": 3})
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64), 'normals': (2, 3, 48, 64)}
    """

    def __init__(self, outputs: Mapping[str, int], width: int = 16) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        if not width >= 1 or width % GROUP_CHANNELS:
            raise ValueError(f"Parameter `width` should be a multiple of {GROUP_CHANNELS}. Found `width = {width}`.")
        self.trunk = Trunk(width)
        self.heads = nn.ModuleList([Head(width, channels) for channels in outputs.values()])

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        features = self.trunk(image)
        return {task: head(features, image.shape[-2:]) for task, head in zip(self.tasks, self.heads, strict=True)}
