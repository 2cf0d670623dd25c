"""Tables: what is read is what was written, bad input is named, units do not matter, missing labels are left out."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.shared_data import shared
from helpers.training_cases import preset
from torchsims.data.tables import Features, Target, is_missing, read_table, split_rows
from torchsims.data.tables._csv import check_header
from torchsims.models import class_loss, number_loss
from torchsims.registry import Spec
from torchsims.training import RunConfig, train
from torchsims.workloads import load_workload

TABLE = "x,town,weight,kind,sold\n" + "".join(
    f"{i % 17},{'abc'[i % 3]}{'' if i % 7 else 'z'},{0.5 * (i % 17) + i % 3 if i % 5 else ''},{'uvw'[i % 3]},{i % 2}\n"
    for i in range(240)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(TABLE)
    return tmp_path / "table.csv"


def write(folder: Path, text: str) -> Path:
    (folder / "t.csv").write_text(text)
    return folder / "t.csv"


def test_gzip_and_parquet_read_as_the_csv_does(table: Path) -> None:
    pyarrow_csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    packed = table.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(table.read_bytes()))
    parquet.write_table(pyarrow_csv.read_csv(table), table.with_suffix(".parquet"))
    plain = read_table(table)
    for other in (read_table(packed), read_table(table.with_suffix(".parquet"))):
        assert list(other) == list(plain)
        for name, column in plain.items():
            assert other[name].dtype == column.dtype
            known = ~is_missing(column)
            assert (is_missing(other[name]) == ~known).all()
            assert (other[name][known] == column[known]).all()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "should have a line with the names of its columns"),
        ("a,b\n", "should have at least one row. Found none in"),
        ("a,b,a\n1,2,3\n", "should have distinct names. Found `a` twice"),
        ("a,b\n1,2\n\n3,4\n5\n", r"Line 5 of `.*t.csv` should have 2 fields. Found 1."),
        ('a,b\n"x\ny",2\n5,6,7\n', r"Line 4 of `.*t.csv` should have 2 fields. Found 3."),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_table(write(tmp_path, text))


def test_a_column_is_numbers_if_every_value_is_one_or_missing(tmp_path: Path) -> None:
    rows = ["+1.5, 2 ,True,2020-01-01,x", "NA,-1e5,false,2020-01-02,", 'n/a,inf,,,"3,4"', ".5,NaN,None,null, y"]
    found = read_table(write(tmp_path, "\n".join(["a,b,c,d,e", *rows]) + "\n"))
    np.testing.assert_array_equal(found["a"], [1.5, np.nan, np.nan, 0.5])
    np.testing.assert_array_equal(found["b"], [2.0, -1e5, np.inf, np.nan])
    assert found["c"].tolist() == ["True", "false", None, "None"]
    assert found["d"].tolist() == ["2020-01-01", "2020-01-02", None, None]
    assert found["e"].tolist() == ["x", None, "3,4", " y"]
    assert read_table(tmp_path / "t.csv", text=["a"])["a"].tolist() == ["+1.5", None, None, ".5"]


def test_a_text_after_many_numbers_makes_a_column_text(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n" + "1,2.5\n" * 1_500_000 + "1,x\n")  # more than a block of pyarrow
    found = read_table(path)
    assert found["a"].dtype == np.float64
    assert found["b"][[0, -1]].tolist() == ["2.5", "x"]


def test_two_of_many_columns_with_one_name_are_found(tmp_path: Path) -> None:
    """In a time that does not grow with the square of their number."""
    names = [f"c{i}" for i in range(300_000)]
    check_header(names, tmp_path)
    with pytest.raises(ValueError, match="Found `c7` twice"):
        check_header([*names, "c7"], tmp_path)


def test_a_small_file_that_would_fill_the_memory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    for text in (b"a,b\n" + b"1" * 20_000_000, b"1" * 20_000_000):
        path.write_bytes(gzip.compress(text, 1))
        with pytest.raises(ValueError, match=r"A line of `.*t.csv.gz` should have fewer than 4194304 characters"):
            read_table(path)


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(ValueError, match=r"The file `.*t.parquet` cannot be read as Parquet: "):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("column", "kind", "sentence"),
    [
        (
            [3.0, 3.0, np.nan],
            "auto",
            "Target `y` should take at least two values in the training rows. Found only 3.0.",
        ),
        ([np.nan, np.nan], "auto", "Found none: all are missing."),
        ([1.0, np.inf, 2.0], "auto", "Target `y` should be finite. Found an infinite value."),
        (["1", "two", None], "number", "Target `y` should hold numbers. Found 'two'."),
        ([1.0, 2.0], "price", "The type of target `y` should be one of auto, number, class. Found 'price'."),
        ([-1e300, 1e300, 0.0], "number", "Target `y` should have a finite spread. Found values up to 1e.300."),
    ],
)
def test_a_bad_target_is_named(column: list[Any], kind: Any, sentence: str) -> None:
    values = np.array(column, dtype=object if isinstance(column[0], str) else None)
    with pytest.raises(ValueError, match=sentence):
        Target.fit("y", values, kind)


def test_an_infinite_label_of_another_row_is_named() -> None:
    with pytest.raises(ValueError, match="Target `y` should be finite"):
        Target.fit("y", np.array([1.0, 2.0, 4.0])).encode(np.array([np.inf]))


def test_an_infinite_feature_is_named() -> None:
    with pytest.raises(ValueError, match="Feature `x` should be finite"):
        Features.fit({"x": np.array([1.0, -np.inf])}, ["x"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", [3, 10, 1001])
def test_a_split_is_seeded_disjoint_and_whole(rows: int, seed: int) -> None:
    parts = split_rows(rows, seed)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(rows))
    assert all(len(part) for part in parts.values())
    again, other = split_rows(rows, seed), split_rows(rows, seed + 100)
    assert all((parts[name] == again[name]).all() for name in parts)
    assert rows < 1000 or any(len(parts[n]) != len(other[n]) or (parts[n] != other[n]).any() for n in parts)


def test_two_rows_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="should have rows for training, validation and test"):
        split_rows(2)


def test_features_are_standardised_and_unknown_ones_have_code_zero() -> None:
    column = np.array(["a", "b", "a", None, "rare", "b"], dtype=object)
    features = Features.fit({"x": np.arange(6.0), "c": column, "constant": np.full(6, 0.1)}, ["x", "c", "constant"])
    numbers, codes = features.encode({"x": np.arange(6.0), "c": column, "constant": np.full(6, 0.1)})
    assert numbers[:, 0].mean() == pytest.approx(0, abs=1e-7)
    assert numbers[:, 0].std() == pytest.approx(1)
    assert np.abs(numbers[:, 1]).max() < 1e-6
    assert codes[:, 0].tolist() == [1, 2, 1, 0, 0, 2]
    strangers = np.array(["never", "", "zz"], dtype=object)
    assert features.encode({"x": np.zeros(3), "c": strangers, "constant": np.zeros(3)})[1].tolist() == [[0], [0], [0]]


@pytest.mark.parametrize("factor", [2.0**5, 2.0**-40, 2.0**90])
def test_a_target_in_other_units_is_stored_the_same_to_the_bit(factor: float) -> None:
    column = np.random.default_rng(0).normal(-411, 10, size=1000)
    one, other = Target.fit("u0", column), Target.fit("u0", factor * column)
    assert other.sd == factor * one.sd
    assert (other.encode(factor * column) == one.encode(column)).all()


def test_numbers_far_from_zero_keep_their_digits() -> None:
    column = 1.6e9 + np.random.default_rng(0).normal(size=1000)
    target = Target.fit("time", column)
    decoded = target.decode(target.encode(column).astype(np.float32)[:, None])
    assert np.abs(decoded - column).max() < 1e-5


def test_losses_are_native_units_over_the_known_rows() -> None:
    prediction, z = torch.randn(8, 1), torch.randn(8)
    z[2] = torch.nan
    total, count = number_loss(prediction, z, sd=1e4)
    expected = ((1e4 * prediction[:, 0] - 1e4 * z).double().square())[~z.isnan()].sum()
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert count == 7
    both = number_loss(
        torch.cat([prediction, prediction], 1), torch.stack([z, z], 1), torch.tensor([1e4, 1.0]).double()
    )
    assert both[0].tolist() == pytest.approx([total.item(), total.item() / 1e8])


def test_a_loss_is_never_zero_nor_infinite() -> None:
    exact, _ = number_loss(torch.ones(3, 1), torch.ones(3), sd=1e-9)
    assert 0 < exact.item() < 1e-30
    for logit in (500.0, -700.0):
        right, _ = class_loss(torch.tensor([[logit]]), torch.tensor([int(logit > 0)]))
        wrong, _ = class_loss(torch.tensor([[logit]]), torch.tensor([int(logit < 0)]))
        assert 0 < right.item() < 1e-100
        assert wrong.item() == pytest.approx(abs(logit))


def test_a_task_without_labels_counts_nothing_and_keeps_its_graph() -> None:
    out = torch.randn(4, 1, requires_grad=True)
    targets = {"number": torch.full((4,), torch.nan), "class": torch.full((4,), -1)}
    found = [number_loss(out, targets["number"], 2.0), class_loss(out, targets["class"])]
    assert [int(count) for _, count in found] == [0, 0]
    assert all(total.item() == 0 for total, _ in found)
    found[0][0].backward()  # type: ignore[no-untyped-call]
    assert out.grad is not None
    assert out.grad.abs().sum() == 0


TARGETS = ("weight", "kind", "sold")


def workload_of(path: Path, tasks: Sequence[str] = TARGETS, types: Sequence[str] = (), **options: str) -> Any:
    return load_workload(str(Spec("table", options)), tasks, str(path), types=types)


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
    other = write(tmp_path, "\n".join(",".join(line) for line in lines) + "\n")
    first, second = run(table, tmp_path / "a"), run(other, tmp_path / "b")
    assert second["weight"]["mae"] == 32 * first["weight"]["mae"]
    second["weight"]["mae"] /= 32
    assert first == second


def test_rows_without_a_label_do_not_change_what_is_learned() -> None:
    z = torch.tensor([0.5, torch.nan, -1.0, torch.nan])
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(3, 1)
    gradients = []
    for rows in (slice(None), ~z.isnan()):
        total, count = number_loss(model(x[rows]), z[rows])
        gradients.append(torch.autograd.grad(total / count, list(model.parameters())))
    for masked, dropped in zip(*gradients, strict=True):
        torch.testing.assert_close(masked, dropped, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tasks": ["wieght"]}, "There is no column `wieght`. Did you mean `weight`?"),
        ({"tasks": []}, "Option --targets should name columns"),
        ({"tasks": ["x", "town", "weight", "kind", "sold"]}, "should have columns beside its targets"),
        ({"types": ["number", "class"]}, "one for each of 3 targets. Found `number,class`"),
        ({"tasks": ["weight", "weight"]}, "should be distinct"),
        ({"tasks": ["kind"], "types": ["number"]}, "Target `kind` should hold numbers. Found '[uvw]'"),
        ({"ignore": "twon"}, "There is no column `twon`. Did you mean `town`?"),
        ({"units": "metric"}, "There is no system of units `metric`. The names are native, standard."),
        ({"missing": "zeros"}, "There is no treatment of missing labels `zeros`. Did you mean `zero`?"),
    ],
)
def test_a_bad_option_is_named(table: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        workload_of(table, **options)


def test_a_table_needs_a_file() -> None:
    with pytest.raises(ValueError, match="Option --csv should name a CSV or Parquet file"):
        load_workload("table", ["a"])


def test_an_ignored_column_is_no_feature(table: Path) -> None:
    all_of_them, fewer = workload_of(table), workload_of(table, ignore="town")
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
    path = write(tmp_path, "\n".join([",".join(names), *lines]) + "\n")
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
    workload = workload_of(path, names, ignore="mol_id", types=["class"])
    batch = workload.split("test").columns
    missing = np.mean([(batch[f"target/{name}"] < 0).float().mean().item() for name in names])
    assert missing == pytest.approx(0.17, abs=0.02)
