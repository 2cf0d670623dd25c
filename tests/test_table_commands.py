"""Tables from the command line: every kind of target, a page, and bad input in one sentence."""

import json
import shlex
from pathlib import Path

import pytest
from sklearn.metrics import r2_score  # type: ignore[import-untyped]
from typer.testing import CliRunner

import torchsims
from torchsims.cli import app
from torchsims.data.tables import read_table, split_rows
from torchsims.experiments import starvation
from torchsims.reporting import History, Run

NONE = History(epoch=[], losses={}, weights={}, merit=[], validation={})

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


def test_rows_are_predicted_without_the_table(table: Path, tmp_path: Path) -> None:
    out, targets = tmp_path / "run", ["Price in $", "sold", "grade"]
    given = ["--data", "table", "--csv", table, "--targets", ",".join(targets), "--types", "number,class,class"]
    code, text = run("train", *given, *USUAL, "--epochs", 12, "--lr", "1e-2", "--out", out)
    assert code == 0, text
    metrics = json.loads((out / "results.json").read_text())["history"]["metrics"]
    columns, test = read_table(table), split_rows(120)["test"]
    table.unlink()
    predictor = torchsims.load(out)
    assert isinstance(predictor, torchsims.TablePredictor)
    found = predictor.predict({name: column[test] for name, column in columns.items() if name not in targets})
    assert r2_score(columns["Price in $"][test], found["Price in $"]) == pytest.approx(metrics["Price in $"]["r2"])
    for task in ("sold", "grade"):
        right = (found[task] == columns[task][test]).mean()
        assert right == pytest.approx(metrics[task]["accuracy"])

    rows = tmp_path / "rows.csv"
    rows.write_text("Town,x,more\nnowhere,3,1\n,,2\n")  # a town never seen, missing values, another column
    code, text = run("predict", out, rows, "--out", tmp_path / "found")
    assert code == 0, text
    written = read_table(tmp_path / "found" / "rows_predictions.csv")
    assert list(written) == ["Price in $", "sold", "sold probability", "grade", "grade probability"]
    expected = predictor.predict(rows)
    assert written["Price in $"].tolist() == expected["Price in $"].tolist()
    assert written["sold"].tolist() == expected["sold"].tolist()
    assert (written["sold probability"] >= 0.5).all()
    assert (written["grade probability"] >= 0.25).all()
    rows.write_text("Town\na\n")
    code, text = run("predict", out, rows, "--out", tmp_path / "other")
    assert code == 2
    assert "A table should have the column `x`, as that of the training had." in text


def test_a_map_of_what_starves(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in {"TAUS": (0.1, 3.0), "AUGMENTS": (0.0,), "RATIOS": (2.0,)}.items():
        monkeypatch.setattr(starvation, name, values)
    given = ["--data", "table", "--csv", table, "--targets", "Price in $,grade", "--types", "number", *USUAL]
    code, text = run("reproduce", "starvation", *given, "--jobs", 1, "--out", tmp_path / "out")
    assert code == 0, text
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert [row["method"] for row in rows] == [
        "EW",
        "SIMS, augment 0, ratio 2, tau 0.1",
        "SIMS, augment 0, ratio 2, tau 3",
    ]
    assert {"delta_map.png", "worst_task.png"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_the_worst_task_is_measured_against_its_best_cell() -> None:
    def of(label: str, seed: int, r2: float, error: float) -> Run:
        metrics = {"a": {"r2": r2, "mae": 9.0}, "b": {"error": error}}
        return Run(label, seed, metrics, {"a": {"r2": True, "mae": False}, "b": {"error": False}}, NONE, None)

    runs = [of("x", 0, 0.8, 2.0), of("x", 1, 0.8, 2.0), of("y", 0, 0.2, 1.0), of("y", 1, 0.4, 1.0)]
    found = starvation.shortfalls(runs)
    assert found["x"] == pytest.approx([1.0, 1.0])  # twice the error of y
    assert found["y"] == pytest.approx([0.75, 0.5])
    swapped = starvation.shortfalls(runs[2:] + runs[:2])
    assert swapped == found


def test_types_are_of_tables_alone(tmp_path: Path) -> None:
    code, text = run("train", "--data", "scenes", "--types", "number", "--out", tmp_path / "out")
    assert code == 2
    assert "There is no option of data `scenes` `types`." in text
