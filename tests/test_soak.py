"""Every program of `make soak` runs, holds on its first case, counts what does not hold, and writes its table."""

from pathlib import Path
from random import Random

import pytest

from soak.programs import PROGRAMS
from soak.runner import BEGIN, END, Program, run, table, write_table

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_case_holds(name: str) -> None:
    count = run(PROGRAMS[name], seed=0, seconds=0)
    assert (count.tried, count.broken) == (1, {})


def test_a_broken_promise_is_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    def small(chance: Random, folder: Path) -> None:
        assert chance.random() < 0.5, "too large"

    count = run(Program("small", "numbers are small", small), seed=1, seconds=60, cases=30)
    assert 0 < len(count.broken) < count.tried == 30
    number = min(count.broken)
    assert f"small, case {number} of seed 1: AssertionError: too large" in capsys.readouterr().out
    again = run(count.program, seed=1, seconds=60, first=number, cases=1)
    assert again.broken.keys() == {number}


def test_the_table_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    count = run(Program("none", "nothing happens", lambda chance, folder: None), seed=0, seconds=60, cases=3)
    write_table(page, table([count], 0, "make soak"))
    text = page.read_text()
    assert "| nothing happens | `none` | 3 | 3 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_the_page_has_every_program() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    for program in PROGRAMS.values():
        assert f"| {program.promise} | `{program.name}` |" in page
