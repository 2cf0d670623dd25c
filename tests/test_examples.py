"""Every script of ``examples/`` runs, each in a process of its own, or on the ranks that its docstring asks for."""

import ast
import difflib
import os
import re
import runpy
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers.processes import CONTEXT, torchrun_environment

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
ARGUMENTS = {"units": ["--steps", "40"]}  # of scripts that would take longer
TORCHRUN = r"torchrun --nproc-per-node (\d+)"
MISSING = 77  # exit code of a script that needs a package which is not installed


def _docstring(script: Path) -> str:
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    ranks = re.search(TORCHRUN, _docstring(script))
    size = int(ranks.group(1)) if ranks else 1
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    outputs = [tmp_path / f"{rank}.txt" for rank in range(size)]
    processes = []
    for rank, output in enumerate(outputs):
        environment = torchrun_environment(rank, size, port) if ranks else {}
        processes.append(CONTEXT.Process(target=_run, args=(script, tmp_path, output, environment)))
        processes[-1].start()
    for process in processes:
        process.join(200)
    codes, text = [process.exitcode for process in processes], outputs[0].read_text()
    if MISSING in codes:
        pytest.skip(text.strip().splitlines()[-1])
    assert codes == [0] * size, "".join(output.read_text() for output in outputs)
    assert text.strip(), "an example should show something"


def _run(script: Path, folder: Path, output: Path, environment: Mapping[str, str]) -> None:
    for descriptor in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.environ.update(environment)
    os.chdir(folder)  # what a script writes is not left in the tree
    own = [str(folder / "folder")] if f"{script.name} FOLDER" in _docstring(script) else []  # as its command says
    sys.argv = [str(script), *own, *ARGUMENTS.get(script.stem, [])]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except ImportError as error:
        traceback.print_exc()
        sys.exit(MISSING if _is_elsewhere(error) else 1)


def _is_elsewhere(error: ImportError) -> bool:
    """Return whether the missing package is another one than torchsims and torch, which every example needs."""
    return (error.name or "elsewhere").split(".")[0] not in ("torchsims", "torch")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_opens_with_what_it_shows_and_its_command(script: Path) -> None:
    summary, _, rest = _docstring(script).partition("\n")
    assert summary.endswith(".")
    assert re.search(rf"\b(python|torchrun) .*examples/{script.name}", rest)
    assert rest.count("torchrun") == len(re.findall(TORCHRUN, rest)), "the test above runs what the command says"


def test_ten_lines_add_sims_to_a_loop() -> None:
    before, after = (
        (EXAMPLES / f"loop_{name}.py").read_text().split('"""\n', 1)[1].splitlines() for name in ("before", "after")
    )
    changes = list(difflib.ndiff(before, after))
    assert len(before) < 60
    assert sum(line.startswith("+ ") and line[2:].strip() != "" for line in changes) <= 10
