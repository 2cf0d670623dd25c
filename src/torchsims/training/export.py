"""A model leaves: as a ``state_dict``, as a program of ``torch.export``, or as ONNX, all usable without torchsims."""

import json
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from torchsims.registry import choose
from torchsims.training.predict import load_model
from torchsims.workloads import Workload

FORMATS = ("safetensors", "pt2", "onnx")


def export_run(
    run: str | PathLike[str],
    out: Path,
    formats: Sequence[str] = ("safetensors",),
    *,
    named: Collection[str] = (),
) -> list[Path]:
    """Write the model of a run to files that can be used without torchsims.

    They are called ``model.safetensors`` (the whole ``state_dict``, frozen parameters included), ``model.pt2`` (a
    program that ``torch.export.load`` reads) and ``model.onnx`` (which needs the package ``onnxscript``). ``named`` is
    as in :func:`torchsims.load`.

    Example:
        >>> import tempfile
        >>> from torchsims.training import RunConfig, train
        >>> config = RunConfig("scenes:images=8:resolution=32", "ew", "hps:width=8", epochs=1, batch=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = train(config, Path(folder) / "run")
        ...     [path.name for path in export_run(Path(folder) / "run", Path(folder))]
        ['model.safetensors']
    """
    for name in formats:
        choose("format", name, FORMATS)
    workload, model = load_model(run, named=named)
    model.eval()
    out.mkdir(parents=True, exist_ok=True)
    writers = {"safetensors": _write_safetensors, "pt2": _write_program, "onnx": _write_onnx}
    paths = [out / f"model.{name}" for name in formats]
    for name, path in zip(formats, paths, strict=True):
        writers[name](workload, model, path)
    return paths


def _write_safetensors(workload: Workload, model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    state = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    save_file(state, str(path), metadata={"tasks": json.dumps(list(workload.tasks))})


def _write_program(workload: Workload, model: nn.Module, path: Path) -> None:
    torch.export.save(_program(workload, model), path)


def _write_onnx(workload: Workload, model: nn.Module, path: Path) -> None:
    try:
        torch.onnx.export(model, _inputs(workload, model), str(path), dynamo=True, verbose=False)
    except ImportError as error:
        raise ImportError(
            f"ONNX needs a package that is not installed: pip install onnxscript. Found: {error}"
        ) from error


def _program(workload: Workload, model: nn.Module) -> torch.export.ExportedProgram:
    inputs = _inputs(workload, model)
    batch = torch.export.Dim("batch", min=1)
    try:
        return torch.export.export(model, inputs, dynamic_shapes=tuple({0: batch} for _ in inputs))
    except Exception as error:  # torch.export raises errors of many kinds
        try:
            return torch.export.export(model, inputs)  # a batch of the size of the example
        except Exception:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(f"The model cannot be written as a program of torch.export: {reason}") from error


def _inputs(workload: Workload, model: nn.Module) -> tuple[Tensor, ...]:
    like = next(model.parameters())
    return tuple(x.to(like) if x.is_floating_point() else x.to(like.device) for x in workload.example_inputs())
