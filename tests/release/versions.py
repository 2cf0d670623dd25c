"""`python -m release.versions`: the core tests on the oldest torch, on every newer Python, and on the newest of all.

Each case has an environment under `build/versions`. The size of its download is printed before it starts.
"""

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from release.environments import ROOT, Environment
from release.no_accelerator import add_empty_libraries

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = ("merit", "transforms", "losses", "normalizers")
ROOMS = ("scalarizations", "aggregations", "steppers", "problems")
HIGHEST = 20  # no Python of a higher minor version is looked for


@dataclass(frozen=True)
class Case:
    """Versions to test.

    Args:
        python: an interpreter.
        requirements: versions of torch and numpy, and what else pip should know.
    """

    python: str
    requirements: tuple[str, ...]


def oldest() -> tuple[str, ...]:
    """Return the lowest versions that the dependencies allow.

    Example:
        >>> [requirement.split("==")[0] for requirement in oldest()]
        ['torch', 'numpy']
    """
    return tuple(f"{requirement.replace('>=', '==')}.0" for requirement in PROJECT["dependencies"])


def newer_pythons() -> dict[str, str]:
    """Return the interpreters on this machine that are newer than this one, by version."""
    found = {}
    for minor in range(sys.version_info.minor + 1, HIGHEST):
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for path in [shutil.which(f"python3.{minor}"), *map(str, installed)]:
            if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
                found[f"3.{minor}"] = path
    return found


def cases() -> dict[str, Case]:
    """Return what is tested, by name."""
    this, newer = f"{sys.version_info.major}.{sys.version_info.minor}", newer_pythons()
    tested = ("-c", str(ROOT / "constraints.txt"), "torch")
    chosen = {f"python-{this}-oldest": Case(sys.executable, oldest())}
    chosen |= {f"python-{version}": Case(path, tested) for version, path in newer.items()}
    last = max(newer, key=lambda version: int(version.split(".")[1]), default=this)
    return chosen | {f"python-{last}-newest": Case(newer.get(last, sys.executable), ("torch",))}


def main() -> None:
    """Run all cases, or those that are named; exit code 1 if one fails."""
    known = cases()
    if unknown := set(sys.argv[1:]) - known.keys():
        sys.exit(f"Cases should be some of {', '.join(known)}. Found `{', '.join(sorted(unknown))}`.")
    failed = [name for name in sys.argv[1:] or known if not holds(name, known[name])]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def holds(name: str, case: Case) -> bool:
    """Run the core tests in an environment of a case; return whether all of them pass."""
    environment = prepare(name, case)
    command = [environment.python, "-m", "pytest", "-n", "2", "--dist", "loadfile", *paths()]
    return subprocess.run(command, cwd=ROOT).returncode == 0


def prepare(name: str, case: Case) -> Environment:
    """Make the environment of a case."""
    environment = Environment.create(ROOT / "build" / "versions" / name, case.python)
    downloads = environment.resolve(*case.requirements, f"{ROOT}[dev,experiments,gradient]")
    versions = ", ".join(f"{item.name} {item.version}" for item in downloads if item.name in ("torch", "numpy"))
    print(f"{name}: {versions}; to download {sum(item.size() for item in downloads) / 1e6:.0f} MB", flush=True)
    others = [f"{item.name}=={item.version}" for item in downloads if item.name != PROJECT["name"]]
    environment.install("--no-deps", *others)
    environment.install("--no-deps", "--editable", str(ROOT))
    added = add_empty_libraries(environment.packages / "torch" / "lib")
    print(f"{name}: empty libraries in place of {', '.join(added) or 'none'}", flush=True)
    return environment


def paths() -> list[str]:
    """Return the tests of the core, not of the commands, and the modules whose examples are run."""
    tests = [*(f"tests/test_{name}.py" for name in MODULES), *(f"tests/{name}" for name in ROOMS)]
    return tests + [f"src/torchsims/{name}" for name in (*(f"{name}.py" for name in MODULES), *ROOMS)]


if __name__ == "__main__":
    main()
