"""A messy table is understood with the options for its columns; a malformed one is a sentence."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.houses import write_houses
from torchsims.training import RunConfig, train

TARGETS = ("price, EUR", "days", "sold")
DATA = "table:thousands=comma:currency=EUR"
OPTIONS = ["--target", "price, EUR", "--targets", "days,sold", "--categories", "zip", "--data", DATA]


def test_the_dry_run_says_how_every_column_was_read(
    tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_houses(tmp_path / "houses.csv", 300)
    assert call("train", "--csv", path, *OPTIONS, "--ignore", "remark", "--dry-run", "--out", tmp_path / "run") == 0
    assert not (tmp_path / "run").exists()
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in capsys.readouterr().out.splitlines()]
    for column in (
        ["price, EUR", "target", "number"],
        ["days", "target", "number"],
        ["sold", "target", "class"],
        ["zip", "feature", "category"],
        ["listed", "feature", "date"],
        ["area", "feature", "number"],
        ["id", "left out", "category"],
        ["remark", "left out", "category"],
    ):
        assert column in cells


@pytest.mark.parametrize("name", ["houses.xlsx", "houses", "houses.dat", "houses.json"])
def test_another_ending_is_a_sentence_about_files(
    name: str, tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_houses(tmp_path / name, 30)
    assert call("train", "--csv", path, "--target", "days", "--dry-run") == 2
    assert "The name of a table should end in one of .csv, .tsv, .txt, " in (found := capsys.readouterr().err)
    assert name in found
    assert call("train", "--csv", tmp_path, "--target", "days", "--dry-run") == 2
    assert "Option --data should say which data set a folder holds." in capsys.readouterr().err


def test_a_root_that_is_not_there_is_named_before_targets_are_asked_for(
    call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", "--root", "/nowhere") == 2
    assert "There is no file or folder `/nowhere`." in capsys.readouterr().err


def test_a_file_of_text_needs_no_name_of_its_data(
    tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_houses(tmp_path / "houses.txt", 300, separator="|")
    assert call("train", "--csv", path, "--target", "days", "--dry-run") == 0
    zips = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| zip"))
    assert "| number |" in zips
    assert "codes are named in `categories`" in zips


def test_a_column_whose_name_has_a_comma_is_written_in_quotes(
    tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_houses(tmp_path / "houses.csv", 300)
    assert call("train", "--csv", path, "--target", "days", "--ignore", "price, EUR", "--dry-run") == 2
    assert """A name with a comma is in double quotes: --ignore '"price, EUR"'.""" in capsys.readouterr().err
    assert call("train", "--csv", path, "--target", "days", "--ignore", '"price, EUR",id', "--dry-run") == 0
    assert capsys.readouterr().out.count("by --ignore") == 2
    assert call("train", "--csv", path, "--target", "days", "--data", "table:separator=tab", "--dry-run") == 2
    assert "There is no column `days`. The names are id,zip" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "compare"])
def test_how_to_select_an_epoch_is_not_ignored(
    command: str, tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_houses(tmp_path / "houses.csv", 300)
    given = [command, "--csv", path, "--target", "days", "--select-by", "days", "--dry-run"]
    assert call(*given) == 2
    assert "Option --select-by needs --select best" in capsys.readouterr().err
    assert call(*given, "--select", "best") == 0


@pytest.mark.parametrize(("option", "kind"), [("--categories", "class"), ("--numbers", "number")])
def test_a_target_is_what_its_column_is_said_to_be(
    option: str, kind: str, tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rooms.csv"
    path.write_text("rooms,area\n" + "".join(f"{1 + row % 3},{row}\n" for row in range(300)))
    assert call("train", "--csv", path, "--target", "rooms", option, "rooms", "--dry-run") == 0
    assert f"| rooms | target | {kind} |" in capsys.readouterr().out


def test_the_messy_houses_are_learned_by_sims_and_not_by_equal_weights(tmp_path: Path) -> None:
    path = write_houses(tmp_path / "houses.csv")
    found = {}
    for method in ("sims", "ew"):
        config = RunConfig(
            DATA, method, "mlp", tasks=TARGETS, root=str(path), categories=("zip",), epochs=30, batch=128
        )
        found[method] = train(config, tmp_path / method).metrics
    sims, ew = found["sims"], found["ew"]
    assert sims["price, EUR"]["r2"] > 0.85
    assert sims["days"]["r2"] > 0.6
    assert sims["sold"]["auc"] > 0.78
    assert ew["days"]["r2"] < 0.4
    assert ew["sold"]["auc"] < 0.7


def test_a_run_predicts_a_new_file_in_the_same_format(tmp_path: Path, call: Callable[..., int]) -> None:
    path = write_houses(tmp_path / "houses.csv", 300)
    assert call("train", "--csv", path, *OPTIONS, "--epochs", 1, "--out", tmp_path / "run") == 0
    new = write_houses(tmp_path / "new.csv", 40, seed=1)
    assert call("predict", tmp_path / "run", new, "--out", tmp_path / "found") == 0
    assert len((tmp_path / "found" / "new_predictions.csv").read_text().splitlines()) == 41


Change = Callable[[random.Random, list[str]], bytes]


def _row(chance: random.Random, lines: list[str]) -> int:
    return chance.randrange(1, len(lines))


def _with_line(change: Callable[[random.Random, list[str]], str]) -> Change:
    """Return a file with one of its rows changed."""

    def edit(chance: random.Random, lines: list[str]) -> bytes:
        row = _row(chance, lines)
        fields = change(chance, lines[row].split(","))
        return "\n".join([*lines[:row], fields, *lines[row + 1 :]]).encode()

    return edit


def _replace(place: int, *texts: str) -> Change:
    """Return a file with another text in one column of many rows."""

    def edit(chance: random.Random, lines: list[str]) -> bytes:
        rows = [line.split(",") for line in lines]
        for row in chance.sample(rows[1:], 60):
            row[place] = chance.choice(texts)
        return "\n".join(map(",".join, rows)).encode()

    return edit


def _all(place: int, text: str) -> Change:
    def edit(_: random.Random, lines: list[str]) -> bytes:
        rows = [line.split(",") for line in lines]
        for row in rows[1:]:
            row[place] = text
        return "\n".join(map(",".join, rows)).encode()

    return edit


CHANGES: dict[str, tuple[Change, str]] = {
    "a field too many": (_with_line(lambda _, fields: ",".join([*fields, "1"])), "Line"),
    "a field too few": (_with_line(lambda _, fields: ",".join(fields[:-1])), "Line"),
    "an open quote": (_with_line(lambda _, fields: '"' + ",".join(fields)), "{file}"),
    "text in a target": (_replace(2, "unknown", "n. a."), "`y`"),
    "currency in a target": (_replace(2, "1 EUR", "2,5 EUR".replace(",", "."), "3 EUR"), "`y`"),
    "an infinite target": (_with_line(lambda _, fields: ",".join([*fields[:2], "inf", *fields[3:]])), "`y`"),
    "a constant target": (_all(2, "7"), "`y`"),
    "a target without values": (_all(2, "NA"), "`y`"),
    "an infinite feature": (_with_line(lambda _, fields: ",".join(["-inf", *fields[1:]])), "`x`"),
    "no rows": (lambda _, lines: lines[0].encode(), "{file}"),
    "nothing": (lambda _, lines: b"", "{file}"),
    "one column twice": (lambda _, lines: "\n".join(["x,x,y,z", *lines[1:]]).encode(), "`x` twice"),
    "another name of a target": (lambda _, lines: "\n".join(["x,town,why,z", *lines[1:]]).encode(), "`y`"),
    "bytes that are no text": (lambda chance, lines: "\n".join(lines).encode() + b"\xff\xfe\xfa,1,2,3", "{file}"),
    "only bytes": (lambda chance, lines: chance.randbytes(300), "{file}"),
    "not gzipped": (lambda chance, lines: "\n".join(lines).encode(), "{file}"),
    "cut gzip": (lambda chance, lines: gzip.compress("\n".join(lines).encode())[: chance.randrange(20, 200)], "{file}"),
    "a Parquet file that is none": (lambda chance, lines: b"PAR1" + chance.randbytes(99) + b"PAR1", "{file}"),
    "very many classes": (
        lambda chance, lines: "\n".join([lines[0], *(f"{i},a,name {i % 150}q,1" for i in range(1500))]).encode(),
        "`y`",
    ),
    "dates as a target": (
        lambda chance, lines: "\n".join([lines[0], *(f"{i},a,2024-01-{i % 28 + 1:02d},1" for i in range(99))]).encode(),
        "`y`",
    ),
}
ENDINGS = {"not gzipped": ".csv.gz", "cut gzip": ".csv.gz", "a Parquet file that is none": ".parquet"}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_malformed_file_is_one_sentence_and_never_a_silent_class(
    kind: str, tmp_path: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    change, named = CHANGES[kind]
    for seed in range(5):  # of each: one hundred files in all
        chance = random.Random(f"{kind} {seed}")
        rows = [f"{chance.gauss(0, 1):.3f},{chance.choice('abc')},{chance.gauss(9, 3):.2f},{i % 2}" for i in range(100)]
        path = tmp_path / f"file{seed}{ENDINGS.get(kind, '.csv')}"
        path.write_bytes(change(chance, ["x,town,y,z", *rows]))
        assert call("train", "--csv", path, "--targets", "y,z", "--dry-run") == 2
        sentence = capsys.readouterr().err
        assert named.format(file=path.name) in sentence
        assert "Traceback" not in sentence
        assert len(sentence.splitlines()) == 1
