"""Lower rooms never import upper ones, and the core imports torch and numpy only; few rooms import more."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "torchsims"

# What each room may import of the package; itself is always allowed.
LOWER = {"merit", "transforms", "losses", "normalizers", "scalarizations", "aggregations"}
ALLOWED: dict[str, set[str]] = {
    "_extras": set(),
    "_limits": set(),
    "_draws": set(),
    "_statistics": set(),
    "_starvation": set(),
    "_server": set(),
    "_workers": set(),
    "registry": set(),
    "spaces": set(),
    "transforms": set(),
    "merit": {"transforms"},
    "losses": set(),
    "normalizers": {"_statistics"},
    "scalarizations": {"_draws", "_extras", "_statistics", "merit", "spaces", "transforms"},
    "aggregations": {"_draws", "_extras", "_statistics", "spaces", "transforms"},
    "steppers": {"_extras", "_statistics", *LOWER},
    "diagnosis": {"steppers"},
    "problems": set(),
    "data": {"_extras", "_limits", "registry"},
    "metrics": {"_extras"},
    "models": {"_extras", "losses", "registry", "spaces"},
    "methods": {"registry", "spaces", "steppers", *LOWER},
    "workloads": {"_extras", "_limits", "registry", "losses", "data", "models", "metrics"},
    "training": {"_starvation", "registry", "losses", "steppers", "diagnosis", "methods", "models", "workloads"},
    "sklearn": {
        "_extras",
        "_starvation",
        "losses",
        "registry",
        "data",
        "models",
        "metrics",
        "methods",
        "training",
        "reporting",
    },
    "lightning": {"_extras", "losses", "steppers"},
    "huggingface": {"_extras", "losses", "steppers"},
    "reporting": {"registry", "diagnosis", "metrics", "training", "workloads"},
    "synthetic": {"metrics", "problems", "reporting", "training", *LOWER},
    "sweeps": {
        *("_extras", "_limits", "_starvation", "_workers", "registry", "spaces"),
        *("methods", "models", "reporting", "training", "workloads"),
    },
    "fronts": {"_extras", "registry", "methods", "metrics", "reporting", "sweeps", "training"},
    "experiments": {"registry", "problems", "reporting", "scalarizations", "sweeps", "synthetic", "training"},
    "cli": {
        "__version__",
        "_workers",
        "registry",
        "methods",
        "models",
        "training",
        "sweeps",
        "fronts",
        "experiments",
        "reporting",
        "workloads",
    },
}
CORE = {"torch", "numpy"}
# What a room may import beside the core: the extras `experiments`, `gradient`, `huggingface`, `lightning`, `ray`,
# `sweeps`, `tables` and `vision`.
EXTRAS: dict[str, set[str]] = {
    "aggregations": {"torchjd"},
    "scalarizations": {"torchjd"},
    "steppers": {"torchjd"},
    "data": {"PIL", "filelock", "h5py", "pyarrow", "scipy"},
    "models": {"peft", "safetensors", "transformers"},
    "sklearn": {"scipy", "sklearn"},
    "lightning": {"lightning"},
    "huggingface": {"transformers"},
    "metrics": {"moocore", "torchmetrics"},
    "training": {"filelock", "safetensors", "tensorboard", "tomli_w"},
    "reporting": {"jinja2", "matplotlib", "rich"},
    "synthetic": {"matplotlib"},
    "sweeps": {"matplotlib", "optuna", "ray", "sqlalchemy", "submitit"},
    "experiments": {"matplotlib"},
    "fronts": {"moocore"},
    "cli": {"typer"},
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


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_keeps_its_private_modules_to_itself(path: Path) -> None:
    names = [name.split(".") for name in imports(path) if name.startswith("torchsims.")]
    private = [parts for parts in names if any(part.startswith("_") for part in parts[2:])]
    assert [".".join(parts) for parts in private if parts[1] != room_of(path)] == []


def test_every_module_says_what_lives_there() -> None:
    assert [str(p) for p in PACKAGE.rglob("*.py") if not ast.get_docstring(ast.parse(p.read_text()))] == []


def test_no_module_is_longer_than_300_lines() -> None:
    assert [str(p) for p in PACKAGE.rglob("*.py") if len(p.read_text().splitlines()) > 300] == []


def test_two_files_import_torch_distributed() -> None:
    found = {p for p in PACKAGE.rglob("*.py") if any(name.startswith("torch.distributed") for name in imports(p))}
    assert found == {PACKAGE / "steppers" / "_distributed.py", PACKAGE / "training" / "world.py"}


def test_importing_the_package_loads_no_optional_dependency() -> None:
    optional = ["torchjd", "torchmetrics", "sklearn", "matplotlib", "rich", "typer", "cvxpy", "ecos", "quadprog"]
    optional += ["transformers", "accelerate", "peft", "safetensors", "PIL", "h5py", "scipy", "pandas", "pyarrow"]
    optional += ["lightning", "pytorch_lightning"]
    modules = "torchsims, torchsims.aggregations, torchsims.steppers, torchsims.models"
    modules += ", torchsims.data, torchsims.data.tables, torchsims.data.clicks"
    code = f"import sys, {modules}; print([m for m in {optional} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
