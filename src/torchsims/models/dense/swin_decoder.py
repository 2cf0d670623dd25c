"""The decoder of Swin-Unet."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle

from torchsims.models.dense.swin import SwinBlock, to_map, to_tokens


class PatchExpanding(nn.Module):
    """Enlarges a feature map ``times`` times, to ``outputs`` channels."""

    def __init__(self, inputs: int, outputs: int, times: int) -> None:
        super().__init__()
        self.times = times
        self.expand = nn.Linear(inputs, outputs * times**2, bias=False)
        self.norm = nn.LayerNorm(outputs * times**2)

    def forward(self, features: Tensor) -> Tensor:
        return pixel_shuffle(to_map(self.norm(self.expand(to_tokens(features))), features.shape[-2:]), self.times)


class SwinDecoder(nn.Module):
    """The decoder of Swin-Unet: it doubles the map, joins what entered a stage of the encoder, and runs two blocks.

    Args:
        config: configuration of the encoder.
        outputs: channels of the prediction.
        dropout: dropout of the blocks.
    """

    def __init__(self, config: Any, outputs: int, dropout: float) -> None:
        super().__init__()
        from transformers.models.swin.modeling_swin import SwinLayer

        config = copy.deepcopy(config)
        config.hidden_dropout_prob = dropout
        self.expansions, self.merges, self.stages = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for stage in reversed(range(len(config.depths) - 1)):
            channels, heads = config.embed_dim * 2**stage, config.num_heads[stage]
            self.expansions.append(PatchExpanding(2 * channels, channels, 2))
            self.merges.append(nn.Linear(2 * channels, channels))
            shifts = (0, config.window_size // 2)
            layers = [SwinLayer(config, channels, (0, 0), heads, shift_size=shift) for shift in shifts]
            self.stages.append(nn.Sequential(*map(SwinBlock, layers)))
        self.norm = nn.LayerNorm(config.embed_dim)
        self.enlarge = PatchExpanding(config.embed_dim, config.embed_dim, config.patch_size)
        self.out = nn.Conv2d(config.embed_dim, outputs, 1, bias=False)

    def forward(self, features: Tensor, skips: Sequence[Tensor]) -> Tensor:
        """Return predictions from the last map and the inputs of the stages before the last, finest first."""
        steps = zip(reversed(skips), self.expansions, self.merges, self.stages, strict=True)
        for skip, expand, merge, stage in steps:
            both = torch.cat([expand(features), skip], dim=1)
            features = stage(to_map(merge(to_tokens(both)), skip.shape[-2:]))
        features = to_map(self.norm(to_tokens(features)), features.shape[-2:])
        out: Tensor = self.out(self.enlarge(features))
        return out
