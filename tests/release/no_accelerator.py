"""Let a build of torch for accelerators run on a CPU without gigabytes of libraries for devices that are not there.

Such a build does not load unless it finds the libraries that it was linked with. Empty ones will do: each function that
torch looks for is there and returns the error code of "no device".
"""

import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

NO_DEVICE = 100  # of the runtime library of CUDA: torch then finds no device
LIBRARY, FUNCTION = re.compile(r"lib(cu|nccl|nv)"), re.compile(r"(__)?(cu|nccl|nv)")


def add_empty_libraries(folder: Path) -> list[str]:
    """Compile an empty library in place of each one that the libraries in a folder need and do not find there."""
    files = sorted(folder.glob("*.so*"))
    needed = {name for file in files for name in re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "-d", file))}
    missing = sorted(name for name in needed if LIBRARY.match(name) and not (folder / name).exists())
    called = {name for file in files for name in re.findall(r" [Uw] ([^\s@]+)", _output("nm", "-D", file))}
    source = "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in sorted(called) if FUNCTION.match(name))
    versions = _versions(files)
    with TemporaryDirectory() as scratch:
        script = Path(scratch) / "versions"
        for name in missing:
            script.write_text("".join(f"{version} {{ global: *; }};\n" for version in versions.get(name, [name])))
            named = [f"-Wl,-soname,{name}", f"-Wl,--version-script,{script}"]
            command = ["cc", "-w", "-shared", "-fPIC", *named, "-o", str(folder / name), "-x", "c", "-"]
            subprocess.run(command, input=source, text=True, check=True)
    return missing


def _versions(files: list[Path]) -> dict[str, list[str]]:
    """Return the versions of symbols that the files ask for, by library."""
    found: dict[str, list[str]] = {}
    for file in files:
        library = ""
        for line in _output("readelf", "-V", file).splitlines():
            if name := re.search(r"File: (\S+)", line):
                library = name[1]
            elif (name := re.search(r"Name: (\S+)\s+Flags", line)) and name[1] not in found.setdefault(library, []):
                found[library].append(name[1])
    return found


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
