"""Long lists of runs whose results are kept in docs/results as they finish: what is there is not trained again."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

RESULTS = Path(__file__).parent.parent / "docs" / "results"


class Part(Protocol):
    """What one command trains, or resumes."""

    @property
    def name(self) -> str:
        """Name of its folder, and of the file of its results."""

    def command(self, out: Path) -> list[str]:
        """Return the command that trains it in a folder."""


def train_parts(title: str, what: str, parts: Iterable[Part], keep: Callable[[Path, Path], None]) -> None:
    """Read options and train the parts that are left, in `runs/WHAT`; ``keep(out, file)`` writes what is kept."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--jobs", type=int, default=2, help="commands at a time")
    parser.add_argument("--only", default="", help="parts whose name begins so")
    parser.add_argument("--list", action="store_true", help="say what is done, and stop")
    options = parser.parse_args()
    chosen = [part for part in parts if part.name.startswith(options.only)]

    def kept(part: Part) -> Path:
        return RESULTS / what / f"{part.name}.json"

    def train(part: Part) -> None:
        if kept(part).exists():
            return
        out = Path("runs") / what / part.name
        out.parent.mkdir(parents=True, exist_ok=True)
        with (out.parent / f"{out.name}.log").open("a") as log:
            code = subprocess.run(part.command(out), stdout=log, stderr=subprocess.STDOUT, check=False).returncode
        if code == 0:
            kept(part).parent.mkdir(parents=True, exist_ok=True)
            keep(out, kept(part))
        print(f"{part.name}: {'done' if code == 0 else f'ended with {code}'}", flush=True)

    if options.list:
        for part in chosen:
            print("done" if kept(part).exists() else "left", part.name)
        sys.exit()
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(train, chosen))
