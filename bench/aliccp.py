"""Memory and speed of turning a raw click log into columns: python bench/aliccp.py FOLDER [--rows 2000000].

Writes raw logs of a fourth of the rows and of all rows into the folder, converts each in a process of its own, and
prints seconds, the largest memory of the process, and what follows for the 84 million impressions of Ali-CCP. Common
features have one line per fifty impressions. A log repeats the same hundred thousand impressions with other common
features, so that the number of distinct ids does not grow.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from torchsims.data.clicks import convert, generate_clicks, write_raw

BLOCK = 100_000
ALL = 84_000_000


def write(folder: Path, rows: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_raw(folder, "test", generate_clicks(1000))
    write_raw(folder, "train", generate_clicks(BLOCK))
    parts = [folder / f"{name}_train.csv" for name in ("common_features", "sample_skeleton")]
    texts = [part.read_text() for part in parts]
    for block in range(1, rows // BLOCK):
        with parts[0].open("a") as file:
            file.write("".join(f"{block}{line}\n" for line in texts[0].splitlines()))
        with parts[1].open("a") as file:
            file.write(texts[1].replace(",c", f",{block}c"))


def most_memory() -> float:
    """Return the largest memory of this process so far in MB; that of `resource` includes its parent's."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--only", type=Path, help="convert this folder and print the largest memory in MB")
    options = parser.parse_args()
    if options.only:
        before = most_memory()
        convert(options.only)
        print(before, most_memory())
        return
    found = []
    for rows in (options.rows // 4, options.rows):
        write(options.folder, rows)
        begin = time.perf_counter()
        command = [sys.executable, __file__, str(options.folder), "--only", str(options.folder)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        begun, most = map(float, output.split())
        seconds = time.perf_counter() - begin
        size = sum(path.stat().st_size for path in (options.folder / "columns").rglob("*.arrow"))
        found.append((rows, most))
        print(
            f"{rows} impressions: {seconds:.0f} s ({1e6 * seconds / rows:.1f} us per row), "
            f"{begun:.0f} MB before, {most:.0f} MB at most, {size / rows:.0f} bytes per row on disk",
            flush=True,
        )
    (few, first), (many, last) = found
    slope = max(0.0, (last - first) / (many - few))
    print(
        f"growth {1e6 * slope:.1f} MB per million rows, so {(last + slope * (ALL - many)) / 1024:.2f} GB for 84 million"
    )


if __name__ == "__main__":
    main()
