"""Normalisation layers of dense networks."""

from torch import Tensor, nn
from torch.nn.functional import batch_norm

NORMS = ("batch", "group", "frozen")
GROUP_CHANNELS = 8  # channels per group of GroupNorm


class FrozenBatchNorm(nn.Module):
    """Batch normalisation by stored statistics, in training too; its scale and shift are trained.

    Args:
        source: layer whose parameters and statistics are taken.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, source: nn.BatchNorm2d) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = source.weight, source.bias, source.eps
        self.register_buffer("running_mean", source.running_mean)
        self.register_buffer("running_var", source.running_var)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of the same shape."""
        return batch_norm(features, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def make_norm(kind: str, channels: int) -> nn.Module:
    """Return a new layer: BatchNorm, or GroupNorm, which normalises every image by itself.

    Statistics of a new layer cannot be frozen: there are none yet.
    """
    return nn.BatchNorm2d(channels) if kind == "batch" else _group_norm(channels)


def replace_norms(module: nn.Module, kind: str) -> None:
    """Replace every BatchNorm inside a module; scales and shifts are kept."""
    for name, child in module.named_children():
        if not isinstance(child, nn.BatchNorm2d):
            replace_norms(child, kind)
        elif kind == "batch":
            child.momentum = 0.1  # transformers' MobileNetV2 has 0.997, and would keep the last batch only
        elif kind == "frozen":
            setattr(module, name, FrozenBatchNorm(child))
        else:
            norm = _group_norm(child.num_features)
            norm.weight, norm.bias = child.weight, child.bias
            setattr(module, name, norm)


def _group_norm(channels: int) -> nn.GroupNorm:
    groups = channels // GROUP_CHANNELS if channels % GROUP_CHANNELS == 0 else 1
    return nn.GroupNorm(groups, channels)
