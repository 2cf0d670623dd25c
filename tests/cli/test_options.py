"""Options are declared once: commands, config file and page follow from the field, and help needs no torch."""

import os
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


RUN = """
import sys
from torchsims import cli

def run(*words):
    sys.argv = ["torchsims", *words]
    try:
        cli.main()
    except SystemExit as end:
        assert end.code == 0
"""


def python(code: str, **environment: str) -> str:
    """Run code that may call `run(*words)`, the command line, in a new process; return its output."""
    given = {"PATH": "/usr/bin:/bin", "COLUMNS": "200", "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run([sys.executable, "-c", RUN + code], capture_output=True, text=True, env=given, timeout=250)
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
    train = ["train", *QUICK, "--flavour", "mint", "--save-config", str(tmp_path / "run.toml")]
    repeated = ["train", "--config", str(tmp_path / "run.toml"), "--out", str(tmp_path / "run")]
    code = f"""
for command in {COMMANDS!r}:
    run(*command, "--help")
    print("END OF HELP")
run(*{train!r})
run(*{repeated!r})
"""
    *helps, _ = python(code, PYTHONPATH=str(package)).split("END OF HELP")
    assert len(helps) == len(COMMANDS)
    for text in helps:
        assert "--flavour" in text
        assert "Taste of the run." in text
        assert "vanilla" in text
    assert tomllib.loads((tmp_path / "run.toml").read_text())["flavour"] == "mint"
    assert results(tmp_path / "run")["settings"]["flavour"] == "mint"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "flavour" in page
    assert "mint" in page


def test_help_imports_neither_torch_nor_plots() -> None:
    others = [["reproduce"], ["reproduce", "trajectories"], ["predict"], ["report"], ["export"], ["methods"]]
    heavy = ("torch", "numpy", "matplotlib", "transformers", "sklearn", "pyarrow")
    code = f"""
for command in {[[], *COMMANDS, *others]!r}:
    run(*command, "--help")
    assert not [name for name in {heavy!r} if name in sys.modules], command
"""
    assert python(code, PYTHONPATH=os.pathsep.join(sys.path)).count("Usage: ") == 1 + len(COMMANDS) + len(others)


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
