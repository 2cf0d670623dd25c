"""Virtual environments that hold what a check needs and nothing else."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
ACCELERATOR = re.compile(r"(nvidia|cuda|triton)\b")  # packages without which torch runs on a CPU, once it is told so


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Args:
        folder: where it is.
    """

    folder: Path

    @classmethod
    def create(cls, folder: Path, python: str = sys.executable, *options: str) -> "Environment":
        """Make an environment in an empty folder; what was there is deleted."""
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", *options, str(folder)], check=True)
        return cls(folder)

    @classmethod
    def on_top(cls, folder: Path, base: "Environment") -> "Environment":
        """Make an environment that also finds the packages of another one."""
        environment = cls.create(folder, base.python, "--without-pip")
        (environment.packages / "base.pth").write_text(f"{base.packages}\n")
        return environment

    @property
    def python(self) -> str:
        """The interpreter."""
        return str(self.folder / "bin" / "python")

    @property
    def packages(self) -> Path:
        """The folder of installed packages."""
        (folder,) = self.folder.glob("lib/python3*/site-packages")
        return folder

    def run(self, *arguments: str) -> None:
        """Run the interpreter where it finds no other copy of the package."""
        subprocess.run([self.python, "-I", *arguments], check=True)

    def install(self, *arguments: str) -> None:
        """Install packages."""
        self.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", *arguments)

    def resolve(self, *arguments: str) -> list["Download"]:
        """Return what `install` would download, without packages that only an accelerator needs."""
        command = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--dry-run", "--ignore-installed", "--report", "-", *arguments]
        report = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found = [Download.read(item) for item in json.loads(report)["install"]]
        return [item for item in found if not ACCELERATOR.match(item.name)]


@dataclass(frozen=True)
class Download:
    """A package as pip would install it.

    Args:
        name: its name.
        version: its version.
        url: where its file is.
    """

    name: str
    version: str
    url: str

    @classmethod
    def read(cls, item: dict[str, dict[str, str]]) -> "Download":
        """Read an entry of pip's report."""
        return cls(item["metadata"]["name"], item["metadata"]["version"], item["download_info"]["url"])

    def size(self) -> int:
        """Return the bytes of the file, as its server states them."""
        if not self.url.startswith("https:"):
            return 0  # is on this machine
        with urlopen(Request(self.url, method="HEAD")) as answer:
            return int(answer.headers["Content-Length"])
