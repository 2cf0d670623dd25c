"""Tables from the command line: every kind of target, a page, and bad input in one sentence."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from torchsims.cli import app

USUAL = ["--preset", "small", "--epochs", "1", "--batch", "16"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [f"{i % 11},{'abc'[i % 3]},{7 * (i % 11)},{['no', 'yes'][i % 2]},{i % 4}" for i in range(120)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["x,Town,Price in $,sold,grade", *rows]) + "\n")
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, " ".join(result.output.replace("\u2502", " ").split())


def test_a_comparison_of_targets_of_both_types(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    targets = ["--targets", "Price in $,sold,grade", "--types", "number,class,class"]
    code, text = run(
        "compare",
        "--data",
        "table",
        "--csv",
        table,
        *targets,
        *USUAL,
        "--methods",
        "ew,sims",
        "--jobs",
        1,
        "--out",
        out,
    )
    assert code == 0, text
    results = json.loads((out / "results.json").read_text())
    assert [row["method"] for row in results["rows"]] == ["EW", "SIMS"]
    for column in ("Price in $ r2", "Price in $ mae", "sold auc", "grade accuracy"):
        assert column in results["rows"][0], results["rows"][0].keys()
    assert results["settings"]["data"] == "table:types=number+class+class"
    assert shlex.split(results["command"]).count("Price in $,sold,grade") == 1  # one word, though it has blanks
    assert run("report", out, "--out", tmp_path / "page")[0] == 0


def test_a_run_is_trained_stopped_and_gone_on_with(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["--data", "table", "--csv", table, "--targets", "Price in $,sold", *USUAL, "--out", out]
    code, text = run("train", *given)
    assert code == 0, text
    assert "the preset `small` with changes" in (out / "report.html").read_text()
    code, text = run("train", "--resume", "--out", out)
    assert code == 0, text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--targets", "sold"], "Option --csv should name a CSV or Parquet file."),
        (["--csv", "TABLE"], "Option --targets should name columns, separated by commas."),
        (["--csv", "TABLE", "--targets", "solt"], "There is no column `solt`. Did you mean `sold`?"),
        (["--csv", "TABLE", "--targets", "sold", "--types", "number"], "Target `sold` should hold numbers. Found"),
        (["--csv", "TABLE", "--targets", "sold", "--types", "class,class"], "one for each of 1 targets."),
        (["--csv", "none.csv", "--targets", "sold"], "There is no file `none.csv`."),
    ],
)
def test_bad_input_is_one_sentence(table: Path, tmp_path: Path, given: list[str], sentence: str) -> None:
    words = [str(table) if word == "TABLE" else word for word in given]
    code, text = run("train", "--data", "table", *words, "--out", tmp_path / "out")
    assert code == 2
    assert sentence in text
    assert not (tmp_path / "out").exists()


def test_types_are_of_tables_alone(tmp_path: Path) -> None:
    code, text = run("train", "--data", "scenes", "--types", "number", "--out", tmp_path / "out")
    assert code == 2
    assert "There is no option of data `scenes` `types`." in text
