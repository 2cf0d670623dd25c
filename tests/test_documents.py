"""The README and the documentation say what is true: their code runs, and they name what there is."""

import re
from pathlib import Path
from typing import get_origin

import pytest

import torchsims
import torchsims.data.clicks
import torchsims.data.digits
import torchsims.data.folders
import torchsims.data.scenes
import torchsims.data.tables
import torchsims.huggingface
import torchsims.lightning
import torchsims.sklearn
from torchsims import (
    aggregations,
    data,
    diagnosis,
    fronts,
    merit,
    methods,
    metrics,
    models,
    normalizers,
    problems,
    registry,
    reporting,
    scalarizations,
    sweeps,
    training,
    transforms,
    workloads,
)

ROOT = Path(__file__).parent.parent
MODULES = [
    torchsims,
    merit,
    normalizers,
    problems,
    scalarizations,
    aggregations,
    transforms,
    diagnosis,
    data,
    data.scenes,
    data.tables,
    data.clicks,
    data.digits,
    data.folders,
    torchsims.sklearn,
    torchsims.huggingface,
    torchsims.lightning,
    metrics,
    models,
    reporting,
    methods,
    training,
    workloads,
    registry,
    sweeps,
    fronts,
]


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = ("methods/", "recipes/", "reference/")  # pages that are written when the site is built, and tested then


def _blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_both_sides_of_the_change_in_the_readme_run() -> None:
    document = ROOT / "README.md"
    first, *_ = _blocks(document)
    diff = re.findall(r"^```diff\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(diff) == 1
    lines = diff[0].splitlines()
    for kept in "-+":  # before, and after
        names: dict[str, object] = {}
        exec(compile(first, document, "exec"), names)
        exec(compile("\n".join(line[1:] for line in lines if line[0] in f" {kept}"), document, "exec"), names)


@pytest.mark.parametrize("document", [page for page in DOCUMENTS if _blocks(page)], ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(document: Path) -> None:
    names: dict[str, object] = {}
    for block in _blocks(document):
        exec(compile(block, document, "exec"), names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda page: page.name)
def test_code_is_marked_so_that_it_is_run(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert not re.search(r"^\s*```(py|python3|pycon|ipython)\s*$", text, flags=re.MULTILINE)
    assert len(re.findall(r"```\s*python\b", text)) == len(_blocks(document))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        if not target.startswith(("http", *GENERATED)):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_documented_and_has_an_example(module: object) -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    for name in module.__all__:  # type: ignore[attr-defined]
        value = getattr(module, name)
        assert f"`{name}`" in text or f"torchsims.{name}" in text, f"docs/api.md does not list `{name}`"
        assert value.__doc__ or get_origin(value), f"`{name}` has no docstring"  # an alias cannot have one


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_method_and_function_has_a_runnable_example(module: object) -> None:
    bases = {
        "Report",
        "MeritReport",
        "ObjectiveReport",
        "Stepper",
        "Scalarization",
        "Aggregation",
        "WeightedAggregation",
        "Normalizer",
        "Transform",
        "Problem",
        "TaskMetric",
        "Row",
        "Workload",
        "Predictor",
        "Batched",
        "Advance",
        "Callback",
        "Trainer",
        "Resolved",
        "ProgressBar",
        "StoppedError",
    }
    for name in module.__all__:  # type: ignore[attr-defined]
        value = getattr(module, name)
        if callable(value) and name not in bases and get_origin(value) is None:
            assert ">>>" in (value.__doc__ or ""), f"`{name}` has no example"


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert version("torchsims") == torchsims.__version__
