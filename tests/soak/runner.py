"""Runs programs case by case, counts what held, and writes the table of `docs/reliability.md`."""

import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

Case = Callable[[Random, Path], None]
"""Tries one random case in an empty folder; raises any exception if the promise is broken."""

BEGIN, END = "<!-- table -->", "<!-- end of table -->"


@dataclass(frozen=True)
class Program:
    """A promise and what tries to break it.

    Attributes:
        name: name on the command line.
        promise: the promise, in a few words.
        case: tries one case.
    """

    name: str
    promise: str
    case: Case


@dataclass
class Count:
    """How many cases a program tried, and what went wrong by the number of the case."""

    program: Program
    tried: int = 0
    broken: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.program.name}: tried {self.tried}, held {self.tried - len(self.broken)}"


def run(program: Program, seed: int, *, seconds: float, first: int = 0, cases: int | None = None) -> Count:
    """Try cases until the time is over or there were enough; a case depends on seed and number alone."""
    count, end = Count(program), time.monotonic() + seconds
    while (cases is None or count.tried < cases) and (count.tried == 0 or time.monotonic() < end):
        number = first + count.tried
        with tempfile.TemporaryDirectory() as folder:
            try:
                program.case(Random(f"{seed} {program.name} {number}"), Path(folder))
            except Exception as error:  # whatever it is, the promise is broken, and the next case is tried
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                count.broken[number] = reason
                print(f"{program.name}, case {number} of seed {seed}: {reason}", flush=True)
        count.tried += 1
    return count


def table(counts: Sequence[Count], seed: int, command: str) -> str:
    """Return a Markdown table of what was tried."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    lines = [
        f"Written by `{command}` with seed {seed} on {machine}.",
        "",
        "| promise | program | tried | held |",
        "| --- | --- | --- | --- |",
        *(
            f"| {count.program.promise} | `{count.program.name}` | {count.tried} | {count.tried - len(count.broken)} |"
            for count in counts
        ),
    ]
    return "\n".join(lines)


def write_table(path: Path, text: str) -> None:
    """Replace the table of a page."""
    page = path.read_text(encoding="utf-8")
    place = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    path.write_text(place.sub(lambda match: f"{BEGIN}\n{text}\n{END}", page), encoding="utf-8")
