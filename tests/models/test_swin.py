"""Swin transformers, block by block, against transformers' own."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import SwinModel, Swinv2Model

from helpers.small_swin import swin_config, swinv2_config
from torchsims.models.dense.swin import PatchStem, make_stages, to_tokens

KINDS: list[tuple[Any, Any]] = [(swin_config, SwinModel), (swinv2_config, Swinv2Model)]


@pytest.mark.parametrize(("config", "kind"), KINDS)
def test_blocks_are_the_model_for_every_image_whatever_came_before(config: Any, kind: Any) -> None:
    torch.manual_seed(0)
    model = kind(config())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs = copy.deepcopy(model)
    stem, stages = PatchStem(model), make_stages(model)
    for size in [(64, 64), (96, 72), (64, 64), (128, 96)]:
        image = torch.randn(2, 3, *size)
        features: Tensor = stem(image)
        for stage in stages:
            for block in stage:
                features = block(features)
        expected = copy.deepcopy(theirs)(image).last_hidden_state
        torch.testing.assert_close(to_tokens(features), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("config", "kind"), KINDS)
def test_an_image_with_a_map_smaller_than_a_window_is_refused(config: Any, kind: Any) -> None:
    stem = PatchStem(kind(config()))
    stem(torch.rand(1, 3, 64, 64))
    with pytest.raises(ValueError, match=r"at least 64 x 64 pixels, .* holds a window of 2 x 2. Found 96 x 60."):
        stem(torch.rand(1, 3, 96, 60))
