"""`torchsims models`: every architecture, and the parameters of one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import Call
from helpers.small_sam2 import write_checkpoint, write_video_checkpoint
from torchsims.models import MODELS


def test_every_architecture_is_listed_with_its_options(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("models") == 0
    found = capsys.readouterr().out
    for name in (*MODELS.names(), "stl"):
        assert f"| {name} |" in found
    assert "per_channel=no start=" in found
    assert "small, resnet18" in found


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        ("hps:encoder=resnet50", ["trunk | 23508032 | 23508032", "heads | 48380689 | 48380689", "71888721 | 71888721"]),
        ("stl:encoder=resnet50", ["trunk | 70524096", "all | 118904785 | 118904785"]),
        ("sam2:encoder=large", ["trunk | 3469824 | "]),
        ("sam2", ["trunk | 3469824 | "]),  # the published weights, which are not read
        ("sam2:adapter=multilora", ["trunk | 10655712 | "]),
    ],
)
def test_parameters_are_counted_by_part(
    model: str, lines: list[str], call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("models", model, "--data", "nyuv2") == 0
    found = capsys.readouterr().out
    assert all(line in found for line in lines), found


@pytest.mark.parametrize("write", [write_checkpoint, write_video_checkpoint])
def test_parameters_of_a_folder_are_those_of_its_model(
    write: Callable[[Path], Any], tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "sam2")
    tables = []
    for encoder in ("toy", f"{tmp_path}/sam2"):
        assert call("models", f"sam2:encoder={encoder}:rank=2") == 0
        tables.append(capsys.readouterr().out.partition("\n")[2])
    assert tables[0] == tables[1]


def test_a_model_that_is_none_is_one_sentence(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("models", "mtann") == 2
    assert "There is no model `mtann`. Did you mean `mtan`?" in capsys.readouterr().err
