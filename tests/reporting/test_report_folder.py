"""The folder of a report: complete files or none, and a page that loads nothing."""

import base64
import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.finished_runs import METRICS, finished_runs
from torchsims.reporting import Report, runs_table, write_report
from torchsims.reporting._bars import delta_bars
from torchsims.reporting._runs import run_columns, summary_table
from torchsims.training.config import RunConfig
from torchsims.training.run import History, Run

VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}
OTHERS = {"checkpoint.pt": b"weights", "notes.txt": b"precious"}


class Reader(HTMLParser):
    """Checks that every tag is closed, and collects what a page loads and links to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.alts: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.targets += [values[name] or "" for name in ("src", "href", "srcset", "action") if name in values]
        self.ids += [values["id"] or ""] if "id" in values else []
        self.alts += [values.get("alt" if tag == "img" else "aria-label")] if tag in ("img", "svg") else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _report(labels: tuple[str, ...] = ("EW", "SIMS"), **more: object) -> Report:
    runs = finished_runs(labels, seeds=2, pictures=False)
    return Report(
        title="Runs <b>&",
        command="torchsims compare",
        settings={"rescale": {"depth": 100.0}, "methods": labels},
        rows=summary_table(runs),
        details={"Every run": runs_table(runs)},
        figures={"bars": delta_bars({"EW": [0.1]})},
        columns=run_columns(runs),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name, content in OTHERS.items():
        (tmp_path / name).write_bytes(content)
    yield tmp_path
    assert {name: (tmp_path / name).read_bytes() for name in OTHERS} == OTHERS


def test_a_report_goes_into_a_folder_with_other_files(folder: Path) -> None:
    for loss in (math.nan, 0.3):
        run = Run("EW", RunConfig(), {}, {}, History(losses={"seg": [0.5, loss]}))
        write_report(_report(run=run), folder, 1.0, into=True)
        names = {path.name for path in folder.iterdir()}
        assert names == {*OTHERS, "bars.png", "report.html", "results.json", "table.md"}
    results = json.loads((folder / "results.json").read_text())
    assert results["run"]["history"]["losses"] == {"seg": [0.5, 0.3]}
    assert results["rows"][1]["seg miou"] is None  # the second method has a broken run
    assert "history" not in (folder / "report.html").read_text()  # only in results.json
    assert "±" in (folder / "table.md").read_text(encoding="utf-8")


def test_only_a_folder_that_exists_takes_a_report_into_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="should be a folder that exists"):
        write_report(_report(), tmp_path / "new", 1.0, into=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fails", ["report.html", "table.md", "results.json"])
def test_a_full_disk_leaves_no_part_of_a_file(fails: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Path.write_text

    def full(path: Path, data: str, **options: str) -> int:
        if path.name == fails:
            honest(path, data[: len(data) // 2], **options)
            raise OSError(errno.ENOSPC, "No space left on device")
        return honest(path, data, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(_report(), folder, 1.0, into=True)
    assert {path.name for path in folder.iterdir()} == set(OTHERS)
    with pytest.raises(OSError, match="No space left"):
        write_report(_report(), folder / "new", 1.0)
    assert {path.name for path in folder.iterdir()} == set(OTHERS)


def test_a_folder_is_not_finished_before_its_last_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    honest = os.replace

    def stop(source: Path, target: Path) -> None:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(target.name)
        honest(source, target)

    monkeypatch.setattr("torchsims.reporting._report.os.replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_report(_report(), folder, 1.0, into=True)
    assert {path.name for path in folder.iterdir()} == {*OTHERS, *moved}
    assert "results.json" not in moved


def test_the_page_is_balanced_and_loads_nothing(tmp_path: Path) -> None:
    write_report(_report(notes=["<script>alert(1)</script> & more"]), tmp_path / "out", 1.0)
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    assert all(target.startswith("data:image/png;base64,") or target[1:] in reader.ids for target in reader.targets)
    assert len(reader.ids) == len(set(reader.ids))
    assert reader.alts == ["Bars"]
    for outside in ("http://", "https://", "//cdn", "@import"):
        assert outside not in text
    assert all(mark and name in reader.ids for mark, name in re.findall(r"url\((#?)([^)]*)\)", text))
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in text  # no other script runs
    for part in ('<html lang="en">', "<title>Runs &lt;b&gt;&amp;</title>", "<details ", "@media print"):
        assert part in text
    assert text.count("<b>") == sum(map(len, METRICS.values())) * 2  # the best of every column of both tables
