"""Files that would fill the memory, and values that would overflow, are one sentence; 16 bits of grey are read."""

import gzip
import io
import struct
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.small_tables import TABLE, write_table
from torchsims.data import read_image
from torchsims.data.tables import read_table
from torchsims.sklearn import MultiTaskEstimator
from torchsims.sweeps.folders import read_run
from torchsims.workloads import load_workload
from torchsims.workloads.predictors import ArrayPredictor, ImagePredictor, fit_size

VARIABLE = "TORCHSIMS_MAX_GIB"
MIB = str(2**-10)


def png_of_zeros(width: int, height: int) -> bytes:
    """Return a PNG file with grey pixels whose header is right and whose data are missing: it must not be decoded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [20_000, 100_000])  # below and above the bounds of pillow
def test_an_image_with_too_many_pixels_is_not_decoded(side: int, tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png_of_zeros(side, side))
    with pytest.raises(ValueError, match=rf"^File `.*bomb.png` should need at most 4 GiB .* {VARIABLE}"):
        read_image(tmp_path / "bomb.png")


def test_what_is_predicted_for_each_pixel_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(np.zeros((200, 200, 3), dtype=np.uint8)).save(tmp_path / "image.png")
    monkeypatch.setenv(VARIABLE, MIB)
    read_image(tmp_path / "image.png")
    workload = load_workload("scenes")
    predictor = ImagePredictor(workload, workload.build_model("hps:width=8"), (32, 32))
    for predict in (predictor.predict, predictor.predict_file):
        with pytest.raises(ValueError, match=r"should need at most 0\.000976562 GiB"):
            predict(tmp_path / "image.png")
    monkeypatch.setenv(VARIABLE, "1")
    assert predictor.predict(tmp_path / "image.png")["depth"].shape == (1, 200, 200)


def test_a_line_of_pixels_is_squeezed() -> None:
    for shape in ((1, 10**7), (10**7, 1)):
        height, width = fit_size(shape, (96, 128))
        assert height * width <= 96 * 128


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_the_bound_is_a_positive_number(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(np.zeros((2, 2, 3), dtype=np.uint8)).save(tmp_path / "image.png")
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match=f"`{VARIABLE}` should be a positive number. Found `{text}`"):
        read_image(tmp_path / "image.png")


def test_a_compressed_table_is_bounded_and_the_same_one_unpacked_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x,y\n" + "1,2\n" * 50_000
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert len(read_table(tmp_path / "rows.csv.gz")["x"]) == 50_000
    monkeypatch.setenv(VARIABLE, MIB)
    with pytest.raises(ValueError, match=f"rows.csv.gz` should need at most .* {VARIABLE}"):
        read_table(tmp_path / "rows.csv.gz")
    (tmp_path / "rows.csv").write_text(text)
    assert len(read_table(tmp_path / "rows.csv")["x"]) == 50_000


@pytest.mark.parametrize("content", ["x" * (1 << 23), "x,y\n" + "1" * (1 << 23), 'x,y\n1,"' + "\n" * (1 << 23)])
def test_a_compressed_table_without_lines_is_one_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(content.encode(), 1))
    with pytest.raises(ValueError, match=r"bomb\.csv\.gz"):
        read_table(tmp_path / "bomb.csv.gz")


def test_values_of_parquet_files_are_counted_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": np.zeros(200_000), "y": np.zeros(200_000)}), tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size < 1e5
    monkeypatch.setenv(VARIABLE, MIB)
    monkeypatch.setattr(parquet.ParquetFile, "read", lambda self: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=f"rows.parquet` should need at most .* {VARIABLE}"):
        read_table(tmp_path / "rows.parquet")


def test_arrays_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "samples.npz", image=np.zeros((1000, 1, 36, 36)))
    (tmp_path / "results.json").write_text("{}")
    workload = load_workload("multimnist", root="mnist")
    predictor = ArrayPredictor(workload, workload.build_model())
    monkeypatch.setenv(VARIABLE, MIB)
    for read in (lambda: predictor.predict_file(tmp_path / "samples.npz"), lambda: read_run(tmp_path)):
        with pytest.raises(ValueError, match=f"samples.npz` should need at most .* {VARIABLE}"):
            read()


def test_an_array_that_claims_to_be_huge_is_one_sentence(tmp_path: Path) -> None:
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1)) | {"shape": (1 << 60,)}
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    (tmp_path / "huge.npy").write_bytes(buffer.getvalue())
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("image.npy", buffer.getvalue())
    workload = load_workload("multimnist", root="mnist")
    for name in ("huge.npy", "huge.npz"):
        with pytest.raises(ValueError, match=f"{name}` should be an .npy or .npz file"):
            ArrayPredictor(workload, workload.build_model()).predict_file(tmp_path / name)


@pytest.mark.parametrize("mode", ["I;16", "I"])
def test_sixteen_bits_of_grey(mode: str, tmp_path: Path) -> None:
    grey = np.array([[0, 6554], [32768, 65535]])
    path = tmp_path / ("grey.png" if mode == "I;16" else "grey.tif")
    Image.fromarray(grey.astype(np.uint16 if mode == "I;16" else np.int32)).save(path)
    found = read_image(path)
    np.testing.assert_allclose(found[1].numpy(), grey / 65535, rtol=1e-6)
    np.testing.assert_allclose(read_image(grey.astype(np.uint16))[0].numpy(), grey / 65535, rtol=1e-6)


@pytest.fixture
def tabular(tmp_path: Path) -> SimpleNamespace:
    workload: Any = load_workload("table", ("weight", "kind"), str(write_table(tmp_path)))
    return SimpleNamespace(predictor=workload.predictor(workload.build_model("mlp:hidden=4")), folder=tmp_path)


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1e39", "1e17"])
def test_a_number_too_far_away_is_named_with_its_row_and_column(value: str, tabular: SimpleNamespace) -> None:
    path = write_table(tabular.folder, f"x,town,sold\n1,a,0\n{value},a,1\n", "rows.csv")
    with pytest.raises(ValueError, match=r"Feature `x` should be within .* Found -?1e\+\d+ in row 2"):
        tabular.predictor.predict(path)


def test_a_number_that_can_be_used_is(tabular: SimpleNamespace) -> None:
    path = write_table(tabular.folder, "x,town,sold\n1e12,a,0\n", "rows.csv")
    assert np.isfinite(tabular.predictor.predict(path)["weight"]).all()


def test_a_prediction_that_is_not_finite_is_named_with_its_row(tabular: SimpleNamespace) -> None:
    tabular.predictor._model.heads.weight.data.fill_(float("nan"))
    path = write_table(tabular.folder, "x,town,sold\n1,a,0\n", "rows.csv")
    with pytest.raises(ValueError, match=r"prediction of task `weight` should be finite\. Found another in row 1"):
        tabular.predictor.predict(path)


def test_training_on_a_number_too_far_away_names_it(tmp_path: Path) -> None:
    lines = TABLE.splitlines()
    lines[5:7] = ["1e308,a,1,u,0", "-1e308,a,1,u,0"]
    with pytest.raises(ValueError, match="Feature `x` should"):
        load_workload("table", ("weight", "kind"), str(write_table(tmp_path, "\n".join(lines))))


def test_the_estimator_names_it_too() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)) * 1e-3
    estimator = MultiTaskEstimator(hidden=(4,), epochs=1, random_state=0).fit(x, x[:, :2])
    x[3, 1] = 1e308
    with pytest.raises(ValueError, match=r"Feature `x1` should be .* Found 1e\+308 in row 4"):
        estimator.predict(x)
