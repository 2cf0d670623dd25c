"""`torchsims reproduce`: what it writes, that it writes the same again, and what it refuses."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import torchsims
from torchsims import cli

NAMES = ["trajectories", "variance", "prox", "rules", "phase", "fronts"]
TABLES = [
    "methods",
    "architectures",
    "transforms",
    "normalization",
    "tau",
    "lambda",
    "rescale",
    "starvation",
    "aliccp",
]  # on a workload: test_commands


def _call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["torchsims", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert isinstance(end.value.code, int)
    return end.value.code


def _results(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


QUICK = {
    "trajectories": ["--steps", "4", "--no-compile", "--methods", "ew,sims"],
    "variance": ["--steps", "4", "--no-compile", "--seeds", "2"],
    "prox": ["--steps", "30", "--no-compile", "--problems", "f1,f11"],
    "rules": ["--steps", "5", "--no-compile", "--problems", "f1"],
    "fronts": ["--steps", "2", "--points", "2", "--problems", "floor 0.5,zdt1"],
    "phase": ["--steps", "3", "--no-compile", "--taus", "0.01,1", "--ratios", "1,5", "--augments", "0,0.1"],
}
COLUMNS = {
    "trajectories": {"method", "passes", "scale", "start", "end", "steps", "distance", "reached"},
    "variance": {"method", "var_1", "var_2", "var_mean", "paper"},
    "prox": {"prox", "mean_first_step", "mean_rank"},
    "rules": {"rule", "mean_first_step", "median_distance_then", "mean_rank", "as_close_as_0"},
    "phase": {"augment", "tau", "ratio", "reached", "of"},
    "fronts": {"problem", "method", "volume", "volume x1000", "reversed", "of", "moved"},
}
LENGTHS = {"trajectories": 20, "variance": 6, "prox": 5, "rules": 15, "phase": 8, "fronts": 14}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leaves_its_folder_and_the_same_one_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for again in ("a", "b"):
        assert _call(monkeypatch, "reproduce", name, "--out", str(tmp_path / again), *QUICK[name]) == 0
    assert "100 %" in capsys.readouterr().err
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted([f"{name}.png", "report.html", "results.json", "table.md"])
    results = _results(tmp_path / "a")
    assert {"settings", "versions", "seconds", "rows"} <= set(results)
    assert len(results["rows"]) == LENGTHS[name]
    assert all(COLUMNS[name] <= set(row) for row in results["rows"])
    for file in set(files) - {"results.json"}:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    second = _results(tmp_path / "b")
    assert {**results, "seconds": 0} == {**second, "seconds": 0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(("name", "rows"), [("trajectories", 70), ("variance", 7)])
def test_gradient_level_methods_take_part_by_name(
    name: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = "mgda,pcgrad,cagrad,nashmtl,fairgrad,gradnorm,dbmtl"
    options = ["--steps", "3", "--no-compile", "--methods", methods]
    assert _call(monkeypatch, "reproduce", name, "--out", str(tmp_path / "out"), *options) == 0
    found = _results(tmp_path / "out")["rows"]
    assert len(found) == rows
    assert {row.get("passes", "1+2") for row in found} == {"1+2"}


def test_what_no_run_reaches_is_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--steps", "1", "--no-compile", "--problems", "f1", "--starts", "5,5"]
    assert _call(monkeypatch, "reproduce", "prox", "--out", str(tmp_path / "out"), *options) == 0
    assert [row["median_distance_then"] for row in _results(tmp_path / "out")["rows"]] == [None] * 5
    text = (tmp_path / "out" / "table.md").read_text()
    assert "nan" not in text
    assert text.splitlines()[2].split(" | ")[3] == "\N{EN DASH}"


def test_the_page_needs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _call(monkeypatch, "reproduce", "prox", "--out", str(tmp_path / "out"), *QUICK["prox"])
    text = (tmp_path / "out" / "report.html").read_text()
    assert "<svg viewBox=" in text
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text
    assert "http://" not in text
    assert "https://" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["trajectories", "--methods", "ew,adam"], "Parameter `methods` should hold some of ew, gls"),
        (["trajectories", "--methods", ""], "Parameter `methods` should not be empty"),
        (["trajectories", "--tau", "-1"], "Parameter `tau` should be positive and finite. Found `tau = -1.0`."),
        (["trajectories", "--tau", "nan"], "Parameter `tau` should be positive and finite. Found `tau = nan`."),
        (["trajectories", "--tau", "cold"], "Input should be a valid number"),
        (["trajectories", "--starts", ""], "Parameter `starts` should not be empty"),
        (["trajectories", "--starts", "1,2,3"], "Parameter `starts` should hold pairs of numbers"),
        (["trajectories", "--starts", "1,nan"], "Parameter `starts` should hold finite numbers"),
        (["trajectories", "--starts", "a,b"], "Parameter `starts` should hold numbers"),
        (["trajectories", "--steps", "0"], "Parameter `steps` should be positive"),
        (["trajectories", "--variant", "mine"], 'Parameter `variant` should be "paper" or "cited"'),
        (["variance", "--seeds", "0"], "Parameter `seeds` should be positive"),
        (["prox", "--problems", "f3"], "Parameter `problems` should hold some of f1, f2, f11"),
        (["prox", "--values", "-0.1"], "Parameter `values` should not be negative"),
        (["prox", "--starts", ";"], "Parameter `starts` should not be empty"),
        (["phase", "--taus", "0"], "Parameter `taus` should be positive"),
        (["phase", "--ratios", ""], "Parameter `ratios` should not be empty"),
        (["fronts", "--problems", "zdt9"], "Parameter `problems` should hold some of zdt1, zdt2"),
        (["fronts", "--points", "1"], "Parameter `points` should be at least 2. Found `points = 1`."),
        (["phase", "--nonsense"], "No such option: --nonsense"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    place = [] if arguments[0] == "nothing" else ["--out", "new/out"]
    assert _call(monkeypatch, "reproduce", *arguments, *place) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert _call(monkeypatch, "reproduce", "phase", "--out", str(tmp_path), *QUICK["phase"]) == 2
    assert "should be a new or empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchsims.reporting._report.render_page", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["torchsims", "reproduce", "prox", "--out", str(tmp_path / "x"), *QUICK["prox"]])
    with pytest.raises(ZeroDivisionError):
        cli.main()
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_it_says_so_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    quick = [option for option in QUICK["rules"] if option != "--no-compile"]
    assert _call(monkeypatch, "reproduce", "rules", "--out", str(tmp_path / "out"), *quick) == 0
    assert "no C++ compiler found" in capsys.readouterr().err
    assert _results(tmp_path / "out")["settings"]["compiled"] is False


def test_reproduce_alone_lists_the_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _call(monkeypatch, "reproduce") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES + TABLES


def test_every_public_name_is_found_when_it_is_first_used() -> None:
    assert set(torchsims.__all__) == set(dir(torchsims))
    for name in torchsims.__all__:
        assert getattr(torchsims, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torchsims.nothing  # noqa: B018 - the access is the test
