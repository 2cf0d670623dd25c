"""Configurations of Sam2 models: the published sizes, and one for tests."""

from typing import Any

from torchsims._extras import needs

# Arguments of Sam2HieraDetConfig; those that are left out have its defaults.
TRUNKS: dict[str, dict[str, Any]] = {
    "toy": {
        "hidden_size": 8,
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 1, 2, 2],
        "window_size_per_stage": [8, 4, 4, 2],
        "global_attention_blocks": [3],
    },
    "tiny": {},
    "small": {"blocks_per_stage": [1, 2, 11, 2], "global_attention_blocks": [7, 10, 13]},
    "base-plus": {
        "hidden_size": 112,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 3, 16, 3],
        "embed_dim_per_stage": [112, 224, 448, 896],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "global_attention_blocks": [12, 16, 20],
        "window_positional_embedding_background_size": [14, 14],
    },
    "large": {
        "hidden_size": 144,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 6, 36, 4],
        "embed_dim_per_stage": [144, 288, 576, 1152],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "window_size_per_stage": [8, 4, 16, 8],
        "global_attention_blocks": [23, 33, 43],
    },
}
SIZES = tuple(TRUNKS)
"""Names of the configurations."""

HUB = "facebook/sam2.1-hiera-"  # with the name of a size, the hub id of published weights

TOY_WIDTH, WIDTH = 32, 256  # channels between the neck and the end of the decoder


def sam2_config(size: str = "tiny") -> Any:
    """Return the configuration of a Sam2 model, for a model with random weights or on the meta device.

    Needs the extra ``[vision]``.

    Args:
        size: ``"tiny"``, ``"small"``, ``"base-plus"`` or ``"large"``, the published ones; or ``"toy"``, for tests: the
            same parts at a thousandth of the size, of which there are no pretrained weights.

    Returns:
        A ``transformers.Sam2Config``, to be changed as needed and passed to :class:`torchsims.models.SAM2MTL`.

    Example:
        >>> sam2_config("large").vision_config.backbone_config.blocks_per_stage
        [2, 6, 36, 4]
    """
    if size not in TRUNKS:
        raise ValueError(f"Parameter `size` should be one of {', '.join(TRUNKS)}. Found `size = {size!r}`.")
    with needs("vision"):
        from transformers import Sam2Config, Sam2HieraDetConfig, Sam2VisionConfig
    trunk = Sam2HieraDetConfig(**TRUNKS[size])
    width = TOY_WIDTH if size == "toy" else WIDTH
    decoder = {"mlp_dim": 64, "num_attention_heads": 2} if size == "toy" else {}
    return Sam2Config(
        vision_config=Sam2VisionConfig(
            backbone_config=trunk, backbone_channel_list=trunk.embed_dim_per_stage[::-1], fpn_hidden_size=width
        ),
        prompt_encoder_config={"hidden_size": width},
        mask_decoder_config={"hidden_size": width, "iou_head_hidden_dim": width, **decoder},
    )
