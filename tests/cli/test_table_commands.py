"""Tables from the command line: every kind of target, a page, and bad input in one sentence."""

import gzip
import json
import shlex
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import r2_score  # type: ignore[import-untyped]
from typer.testing import CliRunner

import torchsims
from torchsims.cli import app
from torchsims.data.tables import read_table, split_rows
from torchsims.experiments import starvation
from torchsims.reporting import worst_shortfalls
from torchsims.training.config import RunConfig
from torchsims.training.run import History, Run
from torchsims.training.trainer import Trainer

USUAL = ["--preset", "small", "--epochs", "1", "--batch", "16"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [f"{i % 11},{'abc'[i % 3]},{7 * (i % 11)},{['no', 'yes'][i % 2]},{i % 4}" for i in range(120)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["x,Town,Price in $,sold,grade", *rows]) + "\n")
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    said = f"{result.output} {result.exception}"  # the first process of a program prints what a command raises
    return result.exit_code, " ".join(said.replace("\u2502", " ").split())


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
    assert results["settings"]["types"] == ["number", "class", "class"]
    assert shlex.split(results["command"]).count("Price in $,sold,grade") == 1  # one word, though it has blanks
    assert run("report", out, "--out", tmp_path / "page")[0] == 0


def test_finished_runs_on_data_that_changed_are_refused(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["compare", "--csv", table, "--targets", "Price in $,sold", *USUAL, "--methods", "ew", "--jobs", 1]
    given += ["--out", out]
    code, text = run(*given)
    assert code == 0, text
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    before = table.read_text()
    table.write_text(before.replace("\n1,b,7,", "\n1,b,8,", 1))
    assert table.read_text() != before
    code, text = run(*given, "--resume", "--splits", 2)
    assert code == 2
    assert "is not what the finished run in" in text
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files
    table.write_text(before)
    code, text = run(*given, "--resume", "--splits", 2)
    assert code == 0, text
    for path in out.glob("runs/*/results.json"):  # as runs are that are older than the digest
        results = json.loads(path.read_text())
        assert results["run"].pop("fingerprint")
        path.write_text(json.dumps(results))
    code, text = run("report", out, "--out", tmp_path / "page")
    assert code == 0, text


def test_where_every_run_failed_no_folder_of_finished_runs_is_named(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("The step failed.")

    given = ["compare", "--csv", table, "--targets", "sold,grade", *USUAL, "--methods", "ew", "--jobs", 1]
    given += ["--out", tmp_path / "out"]
    monkeypatch.setattr(Trainer, "step", fail)
    code, text = run(*given)
    assert code == 1
    assert "No run was finished." in text
    assert "The step failed." in text
    assert "Finished runs are in" not in text


def test_a_finished_run_stays_as_it_is(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["--csv", table, "--targets", "Price in $,sold", "--types", "number,class", *USUAL, "--out", out]
    code, text = run("train", *given)  # the name of the file says that it is a table
    assert code == 0, text
    assert "the preset small with changes" in (out / "report.html").read_text()
    before = json.loads((out / "results.json").read_text())["rows"]
    for again in (["--out", out], given):
        code, text = run("train", "--resume", *again)
        assert code == 0, text
        assert json.loads((out / "results.json").read_text())["rows"] == before
    code, text = run("train", "--resume", "--types", "class", "--out", out)
    assert code == 2
    assert "The run to resume has `types = ['number', 'class']`" in text


def test_a_run_does_not_go_on_with_another_table_but_can_be_reported_without_one(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("train", "--csv", table, "--targets", "sold,grade", *USUAL, "--out", out)[0] == 0
    before = (out / "results.json").read_bytes()
    table.write_text(table.read_text().replace(",yes,3", ",no,3", 1))
    code, text = run("train", "--resume", "--out", out)
    assert code == 1
    assert "is not what it was when the run began" in text
    assert (out / "results.json").read_bytes() == before
    table.unlink()
    code, text = run("report", out, "--out", tmp_path / "page")
    assert code == 0, text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--targets", "sold"], "Option --csv should name a file with a table."),
        (["--csv", "TABLE"], "Option --targets should name columns, separated by commas."),
        (["--csv", "TABLE", "--targets", "solt"], "There is no column `solt`. Did you mean `sold`?"),
        (["--csv", "TABLE", "--targets", "sold", "--types", "number"], "Target `sold` should hold numbers. Found"),
        (["--csv", "TABLE", "--targets", "sold", "--types", "class,class"], "one for each of 1 targets."),
        (["--csv", "TABLE", "--targets", "sold,grade,sold"], "Targets should be distinct. Found `sold` twice."),
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
    metrics = json.loads((out / "results.json").read_text())["run"]["metrics"]
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
        higher = {"a": {"r2": True, "mae": False}, "b": {"error": False}}
        return Run(label, RunConfig(seed=seed), metrics, higher, History())

    runs = [of("x", 0, 0.8, 2.0), of("x", 1, 0.8, 2.0), of("y", 0, 0.2, 1.0), of("y", 1, 0.4, 1.0)]
    found = worst_shortfalls(runs)
    assert found["x"] == pytest.approx([1.0, 1.0])  # twice the error of y
    assert found["y"] == pytest.approx([0.75, 0.5])
    swapped = worst_shortfalls(runs[2:] + runs[:2])
    assert swapped == found
    failed = worst_shortfalls([of("z", 0, nan, nan), *runs])
    assert isnan(failed.pop("z")[0])
    assert failed == found


@pytest.mark.parametrize(("place", "value"), [("Price in $", "inf"), ("Price in $", "many"), ("x", "-inf")])
def test_a_bad_value_in_any_row_is_named_before_the_training(
    place: str, value: str, table: Path, tmp_path: Path
) -> None:
    header, *lines = table.read_text().splitlines()
    for row in split_rows(120)["test"][:1]:
        fields = lines[row].split(",")
        fields[header.split(",").index(place)] = value
        lines[row] = ",".join(fields)
    table.write_text("\n".join([header, *lines]) + "\n")
    given = ["--csv", table, "--targets", "Price in $", "--types", "number", *USUAL]
    code, text = run("train", *given, "--out", tmp_path / "out")
    assert code == 2
    assert f"`{place}` should " in text
    assert not (tmp_path / "out").exists()


def test_categories_are_known_again_whatever_they_look_like(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.csv", tmp_path / "rows.csv"
    path.write_text("size,y\n" + "".join(f"{s},{v}\n" for s, v in [("1", 10), ("2", 90), ("3+", 50)] * 40))
    settings = ["--csv", path, "--targets", "y", *USUAL, "--epochs", 20, "--lr", "1e-2"]
    assert run("train", *settings, "--out", tmp_path / "run")[0] == 0
    predictor = torchsims.load(tmp_path / "run")
    rows.write_text("size\n1\n2\n")  # a file that could be numbers
    few = predictor.predict(rows)["y"]
    rows.write_text("size\n1\n2\n3+\n")
    assert few.tolist() == pytest.approx(predictor.predict(rows)["y"].tolist()[:2], rel=1e-5)
    assert few[1] - few[0] > 40
    assert predictor.predict({"size": np.array([1.0, 2.0])})["y"] == pytest.approx(few)
    rows.write_text("size\n1\ninf\n")
    assert run("predict", tmp_path / "run", rows, "--out", tmp_path / "a")[0] == 0  # a size of its own


def test_infinite_features_and_files_of_one_name_are_refused(table: Path, tmp_path: Path) -> None:
    given = ["--csv", table, "--targets", "sold,grade", "--types", "class", *USUAL]
    assert run("train", *given, "--out", tmp_path / "run")[0] == 0
    rows, twin = tmp_path / "rows.csv", tmp_path / "rows.csv.gz"
    rows.write_text("x,Town,Price in $\ninf,a,1\n")
    twin.write_bytes(gzip.compress(b"x,Town,Price in $\n1,a,1\n"))
    code, text = run("predict", tmp_path / "run", rows, "--out", tmp_path / "a")
    assert (code, "Feature `x` should be finite." in text) == (2, True), text
    code, text = run("predict", tmp_path / "run", rows, twin, "--out", tmp_path / "a")
    assert (code, "Files should have distinct names. Found more than one `rows`." in text) == (2, True), text
    code, text = run("predict", tmp_path / "run", twin, "--out", tmp_path / "a")
    assert code == 0, text
    written = (tmp_path / "a" / "rows_predictions.csv").read_text().splitlines()
    assert written[1].split(",")[2] in "0123"  # a class as the table has it


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", "a,b\nü,2\n".encode("latin-1"), "should be text in UTF-8."),
        ("t.csv.gz", b"a,b\n1,2\n", "should be gzipped."),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:-20], "should be gzipped."),
        ("t.csv", b"a,b\n" + b"x" * 9_000_000 + b",2\n", "should have fewer than 4194304 characters"),
        ("t.csv", b'a,b\n1,2\n"3\n4,5\n6,7\n', "Line 3 of"),
    ],
    ids=["latin", "plain", "truncated", "long", "open quote"],
)
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    code, text = run("train", "--csv", tmp_path / name, "--targets", "a", "--out", tmp_path / "out")
    assert code == 2
    assert sentence in text
    assert name in text.replace(" ", "")


def test_a_target_may_have_an_equals_sign(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,A=b,c\n" + "".join(f"{i},{i % 5},{i % 3}\n" for i in range(60)))
    given = ["--csv", path, "--targets", "A=b,c", "--types", "number", "--rescale", "A=b=10", *USUAL]
    code, text = run("train", *given, "--out", tmp_path / "out")
    assert code == 0, text


def test_types_are_of_tables_alone(tmp_path: Path) -> None:
    code, text = run("train", "--data", "scenes", "--types", "number", "--out", tmp_path / "out")
    assert code == 2
    assert "SceneWorkload has no setting `types`. Found `types = number`." in text
