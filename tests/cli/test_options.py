"""Options are declared once: commands, config file and page follow from the field, and help needs no torch."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import torchsims
from helpers.commands import Call, results
from helpers.training_cases import DATA, assert_same_tensors, checkpoint

QUICK = ["--data", DATA, "--model", "hps:width=8", "--epochs", "1", "--batch", "8", "--method", "ew"]
COMMANDS = [["train"], ["compare"], ["reproduce", "methods"], ["reproduce", "tau"], ["reproduce", "aliccp"]]


def run(package: Path, *arguments: object) -> str:
    """Run the command line of a copy of the package."""
    command = [sys.executable, "-m", "torchsims", *map(str, arguments)]
    environment = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_field_is_an_option_everywhere(tmp_path: Path) -> None:
    package = tmp_path / "src"
    source = Path(torchsims.__file__).parent
    shutil.copytree(source, package / "torchsims", ignore=shutil.ignore_patterns("__pycache__"))
    config = package / "torchsims" / "training" / "config.py"
    line = '    flavour: str = setting("vanilla", "Taste of the run.")\n'
    anchor = "    clip: float = setting("
    config.write_text(config.read_text().replace(anchor, line + anchor, 1))
    for command in COMMANDS:
        text = run(package, *command, "--help")
        assert "--flavour" in text
        assert "Taste of the run." in text
        assert "vanilla" in text
    run(package, "train", *QUICK, "--flavour", "mint", "--save-config", tmp_path / "run.toml")
    assert tomllib.loads((tmp_path / "run.toml").read_text())["flavour"] == "mint"
    run(package, "train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run")
    assert results(tmp_path / "run")["settings"]["flavour"] == "mint"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "flavour" in page
    assert "mint" in page


@pytest.mark.parametrize(
    "command",
    [[], *COMMANDS, ["reproduce"], ["reproduce", "trajectories"], ["predict"], ["report"], ["export"], ["methods"]],
)
def test_help_imports_neither_torch_nor_plots(command: list[str]) -> None:
    heavy = ("torch", "numpy", "matplotlib", "transformers", "sklearn", "pyarrow")
    code = f"""
import sys
from torchsims import cli
sys.argv = ["torchsims", *{command!r}, "--help"]
try:
    cli.main()
except SystemExit as end:
    assert end.code == 0
assert not [name for name in {heavy!r} if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "--" in done.stdout


def test_the_version(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"torchsims {torchsims.__version__}\n"


def test_a_config_file_repeats_a_run_and_options_change_it(call: Call, tmp_path: Path) -> None:
    assert call("train", *QUICK, "--out", tmp_path / "first") == 0
    assert call("train", "--config", tmp_path / "first" / "config.toml", "--out", tmp_path / "second") == 0
    assert_same_tensors(checkpoint(tmp_path / "first"), checkpoint(tmp_path / "second"))
    saved = ["--config", tmp_path / "first" / "config.toml", "--seed", "3", "--save-config", tmp_path / "third.json"]
    assert call("train", *saved) == 0
    assert call("train", "--config", tmp_path / "third.json", "--out", tmp_path / "third") == 0
    assert results(tmp_path / "third")["settings"]["seed"] == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("epoch = 3", "There is no setting `epoch`. Did you mean `epochs`?"), ("epochs = ", "should be TOML")],
)
def test_a_bad_config_file_is_one_sentence(
    content: str, sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.toml").write_text(content)
    assert call("train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run") == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
