"""Configurations of transformers' encoders that are small enough for tests."""

from pathlib import Path
from typing import Any

import torch
from torch import nn


def resnet_config(layer_type: str = "bottleneck") -> Any:
    from transformers import ResNetConfig

    return ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 2, 2, 2], layer_type=layer_type)


def mobilenet_config() -> Any:
    from transformers import MobileNetV2Config

    return MobileNetV2Config(depth_multiplier=0.25, tf_padding=False, expand_ratio=2.0)


def save_encoder(folder: Path, config: Any, mean: float | None = None) -> str:
    """Write a random encoder with statistics of its own, as if it were pretrained."""
    from transformers import AutoModel

    torch.manual_seed(0)
    model = AutoModel.from_config(config)
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.uniform_(norm.running_mean, -0.1, 0.1)  # type: ignore[arg-type]
        nn.init.uniform_(norm.running_var, 0.5, 2.0)  # type: ignore[arg-type]
    model.save_pretrained(folder)
    if mean is not None:
        (folder / "preprocessor_config.json").write_text(
            f'{{"image_mean": [{mean}, 0.5, 0.5], "image_std": [1, 1, 2]}}'
        )
    return f"{folder}/"
