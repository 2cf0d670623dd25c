"""Files with the trainable parameters of a model."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import torch
from torch import nn

from torchsims._extras import needs


def save_trainable(model: nn.Module, path: str | PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write the trainable parameters of a model, and nothing else, as safetensors. Needs the extra ``[vision]``.

    Frozen parameters are read from their own source again: a pretrained encoder of gigabytes is not written with every
    model. Buffers are not written either. ``metadata`` are short texts to keep in the header of the file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_trainable(nn.Linear(2, 1), f"{folder}/model.safetensors", {"epoch": "3"})
    """
    with needs("vision"):
        from safetensors.torch import save_file
    tensors = {name: p.detach().contiguous() for name, p in model.named_parameters() if p.requires_grad}
    save_file(tensors, str(path), metadata=dict(metadata or {}))


@torch.no_grad()
def load_trainable(model: nn.Module, path: str | PathLike[str]) -> None:
    """Read what :func:`save_trainable` wrote into a model with the same trainable parameters.

    A name or a shape that differs is an error, and the model does not change.

    Example:
        >>> import tempfile
        >>> a, b = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_trainable(a, f"{folder}/model.safetensors")
        ...     load_trainable(b, f"{folder}/model.safetensors")
        >>> torch.equal(a.weight, b.weight)
        True
    """
    with needs("vision"):
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    if not Path(path).is_file():
        raise FileNotFoundError(f"File `{path}` should hold the trainable parameters of a model. Found no such file.")
    try:
        tensors = load_file(str(path))
    except SafetensorError as error:
        raise ValueError(f"File `{path}` should be in the format safetensors. Found: {error}.") from error
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for name in sorted({*trainable, *tensors}):
        here, there = (str(tuple(t[name].shape)) if name in t else "none" for t in (trainable, tensors))
        if here != there:
            raise ValueError(
                f"Parameter `{name}` of the model and of file `{path}` should have the same shape. "
                f"Found {here} in the model and {there} in the file."
            )
    for name, parameter in trainable.items():
        parameter.copy_(tensors[name])
