"""Tables: every network takes them, units do not matter, missing labels are left out, any name is a target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.shared_data import shared
from helpers.small_tables import TABLE, write_table
from helpers.training_cases import preset
from torchsims.data.tables import read_table, split_rows
from torchsims.registry import Spec
from torchsims.training import RunConfig, train
from torchsims.workloads import load_workload

TARGETS = ("weight", "kind", "sold")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


def workload_of(path: Path, tasks: Sequence[str] = TARGETS, types: Sequence[str] = (), **options: Any) -> Any:
    settings = {name: options.pop(name) for name in ("categories", "dates", "numbers", "ignore") if name in options}
    return load_workload(str(Spec("table", options)), tasks, str(path), types=types, **settings)


def test_a_table_is_trained_on_every_kind_of_target(table: Path, tmp_path: Path) -> None:
    settings = preset("small", data="table", root=str(table), tasks=TARGETS, batch=32)
    metrics = train(settings, tmp_path / "run").metrics
    assert {task: sorted(values) for task, values in metrics.items()} == {
        "weight": ["mae", "r2"],
        "kind": ["accuracy", "auc"],
        "sold": ["accuracy", "auc"],
    }
    assert all(np.isfinite(value) for values in metrics.values() for value in values.values())


@pytest.mark.parametrize(
    "model", ["mlp:layers=1:hidden=8", "sharedbottom", "mmoe:experts=2", "ple:levels=2", "stl:hidden=8"]
)
def test_every_network_takes_a_table(table: Path, model: str) -> None:
    workload = workload_of(table)
    batch = workload.split("val").columns
    predictions = workload.predict(workload.build_model(model), batch)
    losses = workload.losses(predictions, batch).mean()
    assert sorted(losses) == ["kind", "sold", "weight"]
    assert all(loss.isfinite() for loss in losses.values())


def run(path: Path, folder: Path) -> dict[str, dict[str, float]]:
    settings = RunConfig("table", "sims:tau=1", "mlp:hidden=16", tasks=TARGETS, root=str(path), epochs=2, batch=32)
    return {task: dict(metrics) for task, metrics in train(settings, folder).metrics.items()}


def test_other_units_give_the_same_figures_to_the_bit(table: Path, tmp_path: Path) -> None:
    lines = [line.split(",") for line in TABLE.splitlines()]
    for line in lines[1:]:
        line[2] = str(32 * float(line[2])) if line[2] else ""
    other = write_table(tmp_path, "\n".join(",".join(line) for line in lines) + "\n", "other.csv")
    first, second = run(table, tmp_path / "a"), run(other, tmp_path / "b")
    assert second["weight"]["mae"] == 32 * first["weight"]["mae"]
    second["weight"]["mae"] /= 32
    assert first == second


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tasks": ["wieght"]}, "There is no column `wieght`. Did you mean `weight`?"),
        ({"tasks": []}, "Option --targets should name columns"),
        ({"tasks": ["x", "town", "weight", "kind", "sold"]}, "should have columns beside its targets"),
        ({"types": ["number", "class"]}, "one for each of 3 targets. Found `number,class`"),
        ({"tasks": ["weight", "weight"]}, "should be distinct"),
        ({"tasks": ["kind"], "types": ["number"]}, "Target `kind` should hold numbers. Found '[uvw]'"),
        ({"ignore": ["twon"]}, "There is no column `twon`. Did you mean `town`?"),
        ({"units": "metric"}, "There is no system of units `metric`. The names are native, standard."),
        ({"missing": "zeros"}, "There is no treatment of missing labels `zeros`. Did you mean `zero`?"),
    ],
)
def test_a_bad_option_is_named(table: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        workload_of(table, **options)


def test_a_table_needs_a_file() -> None:
    with pytest.raises(ValueError, match="Option --csv should name a file with a table"):
        load_workload("table", ["a"])


def test_an_ignored_column_is_no_feature(table: Path) -> None:
    all_of_them, fewer = workload_of(table), workload_of(table, ignore=["town"])
    assert [part.split("test").columns["numbers"].shape[1] for part in (all_of_them, fewer)] == [1, 1]
    assert [part.split("test").columns["codes"].shape[1] for part in (all_of_them, fewer)] == [1, 0]


def test_standard_units_divide_by_the_variance_of_the_training_rows(table: Path) -> None:
    native, standard = workload_of(table), workload_of(table, units="standard")
    batch = native.split("val").columns
    predictions = native.predict(native.build_model("mlp"), batch)
    both = [workload.losses(predictions, batch).mean() for workload in (native, standard)]
    weights = read_table(table)["weight"][split_rows(240)["train"]]
    assert (both[0]["weight"] / both[1]["weight"]).item() == pytest.approx(np.nanvar(weights), rel=1e-6)
    assert both[0]["kind"] == both[1]["kind"]


def test_missing_as_zero_shrinks_a_loss_by_its_share_of_labels(table: Path) -> None:
    masked, zero = workload_of(table), workload_of(table, missing="zero")
    batch = masked.split("val").columns
    predictions = masked.predict(masked.build_model("mlp"), batch)
    both = [workload.losses(predictions, batch).mean() for workload in (masked, zero)]
    share = (~batch["target/weight"].isnan()).double().mean()
    assert share < 1
    assert (both[1]["weight"] / both[0]["weight"]).item() == pytest.approx(share.item())
    assert both[0]["sold"] == both[1]["sold"]


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = ["a.b", "Price in $", "x:y=1", "größe"]
    lines = [",".join(str((i * k) % 7) for k in (1, 2, 3, 5)) for i in range(1, 60)]
    path = write_table(tmp_path, "\n".join([",".join(names), *lines]) + "\n")
    settings = preset(
        "small",
        data="table",
        types=("number",),
        root=str(path),
        tasks=("a.b", "Price in $", "x:y=1"),
        epochs=1,
        batch=16,
    )
    assert list(train(settings, tmp_path / "run").metrics) == names[:3]


def test_hillstrom_has_two_classes_and_a_number() -> None:
    path = shared("hillstrom/hillstrom.csv.gz")
    workload = workload_of(path, ["visit", "conversion", "spend"])
    kinds = {task: type(metric).__name__ for task, metric in workload.metrics().items()}
    assert kinds == {"visit": "Classification", "conversion": "Classification", "spend": "Regression"}
    assert len(workload.split("train")) == 51_200


def test_tox21_has_labels_missing_anywhere() -> None:
    path = shared("tox21/tox21.csv.gz")
    names = list(read_table(path))[:12]
    workload = workload_of(path, names, ignore=["mol_id"], categories=["smiles"], types=["class"])
    batch = workload.split("test").columns
    missing = np.mean([(batch[f"target/{name}"] < 0).float().mean().item() for name in names])
    assert missing == pytest.approx(0.17, abs=0.02)
