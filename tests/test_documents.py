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
]


@pytest.mark.parametrize(
    ("document", "least"),
    [
        ("README.md", 4),
        ("docs/tables.md", 1),
        ("docs/configuration.md", 5),
        ("docs/plugins.md", 5),
        ("docs/diagnosis.md", 3),
        ("docs/lightning.md", 3),
        ("docs/huggingface.md", 3),
        ("docs/accelerate.md", 1),
        ("docs/preferences.md", 2),
    ],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(document: str, least: int) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= least
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)


@pytest.mark.parametrize("document", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("http"):
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
