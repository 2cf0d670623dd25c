"""Lower rooms never import upper ones, and the core imports torch and numpy only; few rooms import more."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "torchsims"

# What each room may import of the package; itself is always allowed.
ALLOWED: dict[str, set[str]] = {
    "_extras": set(),
    "_draws": set(),
    "_statistics": set(),
    "_specs": set(),
    "registry": set(),
    "_starvation": set(),
    "transforms": set(),
    "merit": {"transforms"},
    "losses": set(),
    "normalizers": {"_statistics"},
    "scalarizations": {"_draws", "_extras", "_statistics", "merit", "transforms"},
    "aggregations": {"_draws", "_extras", "_statistics", "transforms"},
    "steppers": {"_statistics", "merit", "transforms", "losses", "normalizers", "scalarizations", "aggregations"},
    "problems": set(),
    "data": {"_extras"},
    "metrics": set(),
    "models": {"_extras", "losses"},
    "methods": {"_specs", "transforms", "normalizers", "scalarizations", "aggregations", "steppers"},
    "workloads": {"_specs", "losses", "data", "models", "metrics"},
    "training": {"_specs", "registry", "_starvation", "losses", "data", "steppers", "methods", "workloads"},
    "sklearn": {"_starvation", "losses", "data", "models", "methods", "steppers"},
    "reporting": set(),
    "synthetic": {"merit", "transforms", "scalarizations", "problems"},
    "experiments": {
        "_specs",
        "_starvation",
        "methods",
        "steppers",
        "synthetic",
        "problems",
        "data",
        "metrics",
        "reporting",
        "training",
    },
    "cli": {"_specs", "methods", "workloads", "training", "experiments", "reporting"},
}
CORE = {"torch", "numpy"}
# What a room may import beside the core: the extras `experiments`, `gradient`, `tables` and `vision`.
EXTRAS: dict[str, set[str]] = {
    "aggregations": {"torchjd"},
    "scalarizations": {"torchjd"},
    "data": {"PIL", "h5py", "pyarrow", "scipy"},
    "models": {"peft", "safetensors", "transformers"},
    "sklearn": {"sklearn"},
    "metrics": {"torchmetrics"},
    "reporting": {"matplotlib", "rich"},
    "synthetic": {"matplotlib"},
    "experiments": {"matplotlib"},
    "cli": {"typer"},
    "training": {"tomli_w"},
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "torchsims":
            found |= {f"torchsims.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in ALLOWED, f"Say in this test what the new room `{room}` may import."
    inside = {name.split(".")[1] for name in imports(path) if name.startswith("torchsims.")}
    assert inside <= ALLOWED[room] | {room}
    outside = {name.split(".")[0] for name in imports(path)} - {"torchsims"} - set(sys.stdlib_module_names)
    assert outside <= CORE | EXTRAS.get(room, set())


def test_two_files_import_torch_distributed() -> None:
    found = {p for p in PACKAGE.rglob("*.py") if any(name.startswith("torch.distributed") for name in imports(p))}
    assert found == {PACKAGE / "steppers" / "_distributed.py", PACKAGE / "training" / "world.py"}


def test_importing_the_package_loads_no_optional_dependency() -> None:
    optional = ["torchjd", "torchmetrics", "sklearn", "matplotlib", "rich", "typer", "cvxpy", "ecos", "quadprog"]
    optional += ["transformers", "peft", "safetensors", "PIL", "h5py", "scipy", "pandas", "pyarrow"]
    modules = "torchsims, torchsims.aggregations, torchsims.steppers, torchsims.models"
    modules += ", torchsims.data, torchsims.data.tables, torchsims.data.clicks"
    code = f"import sys, {modules}; print([m for m in {optional} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
