"""What the architectures are, and how many parameters their parts have."""

import re
from typing import Any

from torch import nn

from torchsims.models.registry import MODELS, SINGLE_TASK, network_options
from torchsims.registry import option_text

__all__ = ["model_catalogue", "parameter_table"]

_ONE_OF_MANY = re.compile(r"^networks\.\d+\.")


def model_catalogue() -> list[dict[str, str]]:
    """Return every registered model, what it is, and its options with their defaults.

    Example:
        >>> model_catalogue()[0]["options"]
        'encoder=small width=0 dilated=0 norm=auto head=auto frozen=0 checkpointing=no'
    """
    rows = []
    for name in MODELS.names():
        network = MODELS.load(name)
        options = " ".join(f"{key}={option_text(value)}" for key, value in network_options(network).items())
        rows.append({"model": name, "what it is": _first_sentence(network), "options": options})
    single = {"model": SINGLE_TASK, "what it is": "Single-task learning: one network per task.", "options": "of=MODEL"}
    return [*rows, single]


def parameter_table(model: nn.Module) -> list[dict[str, Any]]:
    """Return the parameters of every part of a model, of which some may be frozen, and their sum.

    Example:
        >>> from torchsims.models import LeNet
        >>> parameter_table(LeNet({"left": 10, "right": 10}, side=16))[-1]
        {'part': 'all', 'trained': 7350, 'parameters': 7350}
    """
    parts: dict[str, list[int]] = {}
    for name, parameter in model.named_parameters():
        counts = parts.setdefault(_ONE_OF_MANY.sub("", name).partition(".")[0], [0, 0])
        counts[0] += parameter.numel() if parameter.requires_grad else 0
        counts[1] += parameter.numel()
    parts["all"] = [sum(column) for column in zip(*parts.values(), strict=True)]
    return [{"part": part, "trained": trained, "parameters": both} for part, (trained, both) in parts.items()]


def _first_sentence(network: type[nn.Module]) -> str:
    first = (network.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(first.split())
