"""Predictions of every workload, restored without its data, and any text as the name of a task."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.plug_in import TASKS
from torchsims.workloads import Predictor, TablePredictor, Workload, load_workload, restore_workload
from torchsims.workloads.predictors import ImagePredictor, fit_size

NASTY = ("numbers", "codes", "mean", "mg/dL", "target/numbers", "line\nbreak", "file", "a.npy", "$x_{$")


def restored(text: str, tasks: tuple[str, ...], root: str, workload: Workload) -> Predictor:
    torch.manual_seed(0)
    again = restore_workload(text, tasks, root, workload.prediction_state())
    assert again.tasks == workload.tasks
    assert again.model_arguments() == workload.model_arguments()
    return again.predictor(again.build_model())


def table_of(folder: Path, targets: tuple[str, ...]) -> Path:
    rows = [["x", "town", *targets]]
    rows += [[str(i % 7), "abc"[i % 3], *(str((i * k) % 11) for k in range(1, len(targets) + 1))] for i in range(1, 80)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    (folder / "table.csv").write_text(text.getvalue())
    return folder / "table.csv"


def test_any_text_may_be_the_name_of_a_target(tmp_path: Path) -> None:
    path = table_of(tmp_path, NASTY)
    workload = load_workload("table", NASTY, str(path), types=("number",))
    data: Any = workload.split("train")
    batch = data.batch(range(8))
    predictions = workload.predict(workload.build_model("mlp:hidden=8"), batch)
    assert batch["numbers"].shape == (8, 1)
    assert tuple(workload.targets(batch)) == NASTY
    assert set(workload.losses(predictions, batch).mean()) == set(NASTY)
    for task, metric in workload.metrics().items():
        metric.update(predictions[task], workload.targets(batch)[task])
    predictor = restored("table", NASTY, str(path), workload)
    path.unlink()
    (tmp_path / "rows.csv").write_text("x,town\n3,a\n4,never seen\n")
    found = predictor.predict_file(tmp_path / "rows.csv")
    assert [row["task"] for row in found.rows] == list(NASTY)
    header, *rows = csv.reader(io.StringIO(found.files["predictions.csv"].decode()))
    assert header == list(NASTY)
    assert [float(row[3]) for row in rows] == found.arrays["mg/dL"].tolist()


@pytest.mark.parametrize(
    ("data", "arrays", "shapes"),
    [
        ("helpers.plug_in:Waves", {"signal": (5, 2)}, dict.fromkeys(TASKS, (5,))),
        ("multimnist", {"image": (5, 1, 36, 36)}, {"left": (5,), "right": (5,)}),
        ("aliccp:rows=400", {"numbers": (5, 8), "codes": (5, 23)}, {"ctr": (5, 1), "cvr": (5, 1)}),
    ],
)
def test_arrays_are_predicted_by_any_other_workload(
    data: str, arrays: dict[str, tuple[int, ...]], shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    workload = load_workload(data, root="nowhere" if data == "multimnist" else "")
    predictor = restored(data, workload.tasks, "", workload)
    sizes = {name: (5, len(workload.codes)) if name == "codes" else shape for name, shape in arrays.items()}  # type: ignore[attr-defined]
    sizes |= {"numbers": (5, workload.numbers)} if "numbers" in sizes else {}  # type: ignore[attr-defined]
    given = {name: np.ones(shape, np.int64 if name == "codes" else np.float64) for name, shape in sizes.items()}
    np.savez(tmp_path / "x.npz", **given)  # type: ignore[arg-type]  # its stubs know no names
    found = predictor.predict_file(tmp_path / "x.npz")
    assert {task: array.shape for task, array in found.arrays.items()} == shapes
    assert [(row["task"], row["items"]) for row in found.rows] == [(task, 5) for task in shapes]
    with np.load(io.BytesIO(found.files["predictions.npz"])) as written:
        assert {name: written[name].tolist() for name in written.files} == {
            task: array.tolist() for task, array in found.arrays.items()
        }
    if len(given) == 1:
        (only,) = given.values()
        np.save(tmp_path / "x.npy", only)
        again = predictor.predict_file(tmp_path / "x.npy")
        assert all((again.arrays[task] == array).all() for task, array in found.arrays.items())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"other": np.ones((2, 2))}, "Arrays should be called signal. Missing: signal."),
        ({"signal": np.array(["a", "b"])}, "Array `signal` should hold numbers"),
        ({"signal": np.ones(())}, "with a leading dimension for the item"),
        ({"signal": np.ones((0, 2))}, "should have the same number of items, at least one. Found {'signal': 0}."),
        ({"signal": np.array([{}], dtype=object)}, "should be an .npy or .npz file of arrays. Found: Object arrays"),
        (b"not arrays", "should be an .npy or .npz file of arrays."),
        (b"PK\x03\x04 a broken archive", "should be an .npy or .npz file of arrays."),
        (b"", "should be an .npy or .npz file of arrays."),
    ],
)
def test_bad_arrays_are_one_sentence(content: Any, sentence: str, tmp_path: Path) -> None:
    workload = load_workload("helpers.plug_in:Waves")
    path = tmp_path / "x.npz"
    path.write_bytes(content) if isinstance(content, bytes) else np.savez(path, **content)
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the sentence is compared below
        workload.predictor(workload.build_model()).predict_file(path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_images_are_predicted_as_plain_results(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    workload = load_workload("scenes:images=4:resolution=32", ("seg", "depth", "edges"))
    predictor = restored("scenes:images=4:resolution=32", workload.tasks, "", workload)
    assert isinstance(predictor, ImagePredictor)
    found = predictor.predict_file(tmp_path / "a.png")
    assert found.shown_as == {"seg": "classes", "depth": "distances", "edges": "outlines"}
    assert found.image is not None
    assert found.image.shape == (20, 30, 3)
    assert {task: array.shape for task, array in found.arrays.items()} == {
        "seg": (20, 30),
        "depth": (1, 20, 30),
        "edges": (1, 20, 30),
    }
    assert found.arrays["seg"].dtype.kind == "i"
    assert 0 <= found.arrays["edges"].min() <= found.arrays["edges"].max() <= 1


@pytest.mark.parametrize(
    ("shape", "fitted"), [((480, 640), (96, 128)), ((1000, 500), (160, 80)), ((96, 128), (96, 128))]
)
def test_an_image_keeps_its_proportions_at_the_area_of_the_training(
    shape: tuple[int, int], fitted: tuple[int, int]
) -> None:
    assert fit_size(shape, (96, 128)) == fitted


def test_classes_of_a_table_have_probabilities(tmp_path: Path) -> None:
    path = table_of(tmp_path, ("a", "b"))
    workload = load_workload("table:missing=zero", ("a", "b"), str(path), types=("class", "number"))
    predictor = restored("table:missing=zero", ("a", "b"), str(path), workload)
    assert isinstance(predictor, TablePredictor)
    found = predictor.predict_file(path)
    lines = found.files["predictions.csv"].decode().splitlines()
    assert lines[0] == "a,a probability,b"
    assert len(lines) == 80
    assert all("." not in line.split(",")[0] for line in lines[1:])  # classes that were whole numbers
    assert [sorted(row) for row in found.rows] == [["rows", "table", "task", "typical"]] * 2
    assert predictor.predict(path)["a"].dtype.kind == "i"
    np.testing.assert_allclose(predictor.predict_proba(path)["a"].sum(1), 1)


@pytest.mark.parametrize("model", ["mlp:hidden=8", "mmoe", "ple", "stl"])
def test_no_rows_have_no_predictions(model: str, tmp_path: Path) -> None:
    workload = load_workload("table", ("a", "b"), str(table_of(tmp_path, ("a", "b"))), types=("class", "number"))
    predictor = workload.predictor(workload.build_model(model))
    assert isinstance(predictor, TablePredictor)
    one = {"x": np.array([3.0]), "town": np.array(["a"], dtype=object)}
    none = {name: column[:0] for name, column in one.items()}
    found = predictor.predict(none)
    assert {task: (len(column), column.dtype) for task, column in found.items()} == {
        task: (0, column.dtype) for task, column in predictor.predict(one).items()
    }
    assert predictor.predict_proba(none)["a"].shape == (0, predictor.predict_proba(one)["a"].shape[1])
