"""`python -m release.dist`: what `make dist` built holds what it should, and works where nothing else is installed.

The wheel is installed where there are torch and numpy only, and with each extra by itself, in environments of its own.
Each environment runs the program of `release/extras` that uses what the extra promises.
"""

import subprocess
import sys
import tarfile
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

from release.environments import ROOT, Environment

DIST, FOLDER = ROOT / "dist", ROOT / "build" / "extras"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))
PROGRAMS = Path(__file__).parent / "extras"
PHOTOGRAPHS = "docs/nyuv2-*.png"  # which are not ours to publish


def extras() -> list[str]:
    """Return the names of all extras.

    Example:
        >>> "gradient" in extras()
        True
    """
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def main() -> None:
    """Check the files, then the core, then each extra, or those that are named."""
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source)], check=True)
    check_files(wheel, source)
    base = Environment.create(FOLDER / "torch")
    base.install(*CONSTRAINTS, "torch", "numpy")
    for extra in ["core", *(sys.argv[1:] or extras())]:
        started = time.monotonic()
        environment = Environment.on_top(FOLDER / extra, base)
        name = "torchsims" if extra == "core" else f"torchsims[{extra}]"
        environment.install(*CONSTRAINTS, f"{name} @ {wheel.as_uri()}")
        if extra == "core":
            assert installed(environment) == installed(base) | {"torchsims"}, "needs more than torch and numpy"
        environment.run(str(PROGRAMS / f"{extra}.py"))
        print(f"{extra}: {time.monotonic() - started:.0f} s", flush=True)


def check_files(wheel: Path, source: Path) -> None:
    """Compare what the files hold with what git tracks: all of it but photographs, and of the wheel, the package."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = set(listed.splitlines())
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    found = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == package, f"only in the wheel or only in the package: {sorted(found ^ package)}"
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    kept_back = {name for name in tracked if fnmatch(name, PHOTOGRAPHS)}
    assert tracked - held == kept_back, f"not in the sdist: {sorted(tracked - held)}; should be: {sorted(kept_back)}"


def installed(environment: Environment) -> set[str]:
    """Return the names of the packages of an environment."""
    command = [environment.python, "-I", "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.partition("==")[0] for line in lines}


if __name__ == "__main__":
    main()
