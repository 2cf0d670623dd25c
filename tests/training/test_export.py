"""A model leaves: what is written predicts the same without torchsims."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers.commands import Call
from helpers.training_cases import small
from torchsims.training import export_run, load_model, train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    train(small(method="ew", epochs=1), folder)
    return folder


def test_the_state_dict_is_the_whole_model(run: Path, tmp_path: Path) -> None:
    (path,) = export_run(run, tmp_path)
    _, model = load_model(run)
    state = load_file(path)
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def test_the_program_predicts_the_same_without_torchsims(run: Path, tmp_path: Path, call: Call) -> None:
    assert call("export", run, "--formats", "safetensors,pt2", "--out", tmp_path / "out") == 0
    _, model = load_model(run)
    image = torch.rand(3, 3, 32, 32)
    torch.save(image, tmp_path / "image.pt")
    code = f"""
import json, sys, torch
program = torch.export.load({str(tmp_path / "out" / "model.pt2")!r}).module()
out = program(torch.load({str(tmp_path / "image.pt")!r}))
assert "torchsims" not in sys.modules
print(json.dumps({{task: float(value.double().sum()) for task, value in out.items()}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    with torch.no_grad():
        expected = {task: float(value.double().sum()) for task, value in model.eval()(image).items()}
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--formats", "pickle"], "There is no format `pickle`"),
        (["--formats", "onnx"], "ONNX needs a package that is not installed"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(
    arguments: list[str], sentence: str, run: Path, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("export", run, *arguments, "--out", tmp_path / "out") == 2
    assert sentence in capsys.readouterr().err
