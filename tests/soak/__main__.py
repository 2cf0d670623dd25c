"""`python -m soak`: all programs, or some of them, for ten minutes or for hours; exit code 1 if a promise is broken."""

import argparse
import sys
from pathlib import Path

from soak.programs import PROGRAMS
from soak.runner import run, table, write_table

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def main() -> None:
    """Run programs, print what held, and write the table if all of them ran."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"all by default: {', '.join(PROGRAMS)}")
    parser.add_argument("--hours", type=float, default=1 / 6, help="time for all of them; ten minutes by default")
    parser.add_argument("--seed", type=int, default=0, help="seed of all cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, help="number of cases of each program, instead of the time")
    given = parser.parse_args()
    if unknown := set(given.names) - PROGRAMS.keys():
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    chosen = [PROGRAMS[name] for name in given.names or PROGRAMS]
    seconds = 3600 * given.hours / len(chosen)
    if given.cases is not None:
        seconds = float("inf")
    counts = []
    for program in chosen:
        counts.append(run(program, given.seed, seconds=seconds, first=given.first, cases=given.cases))
        print(counts[-1], flush=True)
    if not given.names:
        hours = "" if given.hours == 1 / 6 else f" HOURS={given.hours:g}"
        write_table(PAGE, table(counts, given.seed, f"make soak{hours}"))
    sys.exit(any(count.broken for count in counts))


if __name__ == "__main__":
    main()
