"""The table of architectures: what it trains, and the rows of the paper beside ours."""

from pathlib import Path

import pytest

from helpers.commands import Call, results
from helpers.paper_tables import TABLES
from helpers.small_folders import write_scenes
from torchsims.experiments import architectures
from torchsims.experiments.paper import COLUMNS, NAMES, PRINTED, beside_paper, printed_rows
from torchsims.training import complete_config, label_of


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small folder as that of NYUv2."""
    root = tmp_path_factory.mktemp("nyuv2")
    for split in ("train", "val"):
        write_scenes(root, split, size=3)
    return root


def test_networks_without_weights_share_the_options_of_the_model() -> None:
    config = complete_config({"model": "hps:encoder=resnet18:head=light"})
    found = architectures.comparison(config, seeds=2)
    networks = ("hps", "stl:of=hps", "crossstitch", "nddr", "mtan", "densemtl")
    assert [each.model for each in found.configs] == [f"{name}:encoder=resnet18:head=light" for name in networks] * 2
    assert {each.method for each in found.configs} == {"ew"}
    assert [each.seed for each in found.configs] == [0] * 6 + [1] * 6
    assert found.baseline == found.configs[0]


def test_architectures_and_method_can_be_named() -> None:
    models = ("mtan:width=16", "stl", "swinmtl:encoder=small", "crossstitch:per_channel=yes")
    found = architectures.comparison(complete_config({"model": "hps:width=8"}), 1, models, "sims:tau=1")
    assert [each.model for each in found.configs] == [
        "mtan:width=16",
        "stl:of=hps:width=8",
        "swinmtl:encoder=small",
        "crossstitch:per_channel=yes:width=8",
    ]
    assert {each.method for each in found.configs} == {"sims:tau=1"}


def test_tables_have_their_own_architectures() -> None:
    found = architectures.comparison(complete_config({"data": "aliccp", "model": "sharedbottom"}), 1)
    names = [each.model.partition(":")[0] for each in found.configs]
    assert names == ["sharedbottom", "stl", "mlp", "mmoe", "ple"]


def test_adapters_of_sam2_are_rows_of_their_own() -> None:
    found = architectures.comparison(complete_config({"model": "sam2:encoder=toy:rank=2:size=64"}), 1)
    assert [each.model for each in found.configs[-3:]] == [
        "sam2:encoder=toy:rank=2:size=64",
        "sam2:adapter=multilora:encoder=toy:rank=2:size=64",
        "sam2:adapter=mtsam:encoder=toy:rank=2:size=64",
    ]
    assert [label_of(each) for each in found.configs[-3:]] == ["SAM2, EW", "SAM2 multilora, EW", "SAM2 mtsam, EW"]


@pytest.mark.parametrize(
    ("size", "windows"), [("height=64:width=96", []), ("height=288:width=384", ["swinmtl", "vtagml"])]
)
def test_the_presets_of_the_paper_have_published_weights(size: str, windows: list[str], rooms: Path) -> None:
    config = complete_config({"data": f"nyuv2:{size}", "root": str(rooms), "preset": "paper"})
    found = [each.model for each in architectures.comparison(config, 1).configs]
    names = [model.partition(":")[0] for model in found]
    assert names == ["hps", "stl", "crossstitch", "nddr", "mtan", "densemtl", *windows, *["sam2"] * 3]
    assert all("encoder=microsoft/" in model for model in found[:-3])
    assert all("encoder=facebook/sam2.1-hiera-large:rank=32" in model for model in found[-3:])


def test_equal_architectures_are_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"Parameter `models` should hold distinct architectures. Found mtan, mtan:width=8."
    ):
        architectures.comparison(complete_config({}), 1, ("mtan", "mtan:width=8"))


def test_an_unknown_architecture_is_one_sentence(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("reproduce", "architectures", "--models", "hps,mtann", "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "There is no model `mtann`. Did you mean `mtan`?" in error
    assert error.count("\n") == 1


# The rows of the paper.


@pytest.mark.parametrize("data", list(PRINTED))
def test_printed_rows_are_those_of_the_paper_in_our_units(data: str) -> None:
    rows = printed_rows(data)
    assert set(rows) <= {name for name, _ in NAMES.values()}
    lines = dict(line.split("|") for line in TABLES[data].splitlines() if line.strip())
    printed = {name.strip(): [float(number) for number in numbers.split()] for name, numbers in lines.items()}
    for name, row in rows.items():
        assert tuple(row) == COLUMNS[data]
        assert row["seg miou"] == pytest.approx(printed[name][0] / 100)
        assert row["Delta_b"] == pytest.approx(printed[name][-1] / 100)
        assert row["normals mean" if "normals mean" in row else "depth rel_err"] in printed[name]


def test_every_row_of_the_paper_is_there_once_and_behind_ours() -> None:
    rows = [{"method": "MTAN, EW", "seg miou": 0.3}, {"method": "EW", "seg miou": 0.2}]
    models, encoders = {"EW": "hps", "MTAN, EW": "mtan"}, {"EW": "small", "MTAN, EW": "./weights"}
    table = beside_paper("nyuv2", rows, models, encoders, "96 x 128")["Beside the paper"]
    assert [row["from"] for row in table] == ["MTAN, EW", "paper", "EW", *["paper"] * 8]
    assert [row["architecture"] for row in table[:4]] == ["MTAN", "MTAN", "HPS", "HPS"]
    assert sorted(str(row["architecture"]) for row in table if row["from"] == "paper") == sorted(printed_rows("nyuv2"))
    settings = [str(row["encoder and images"]) for row in table]
    assert settings[0] == "pretrained ./weights (usual: pretrained ResNet-50), 96 x 128 (usual: 288 x 384)"
    assert settings[2] == "random small (usual: pretrained ResNet-50), 96 x 128 (usual: 288 x 384)"
    assert table[1]["seg miou"] == 0.5474
    assert all(set(row) == {"architecture", "from", "encoder and images", "seg miou"} for row in table)
    assert beside_paper("scenes", rows, models, encoders, "64 x 64") == {}


def test_the_command_on_a_folder_of_nyuv2(rooms: Path, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    steps = ("--epochs", 1, "--batch", 2, "--jobs", 1)
    arguments = ("--root", rooms, "--tasks", "seg,depth", "--model", "hps:width=8", "--models", "hps,mtan", *steps)
    assert call("reproduce", "architectures", "--data", "nyuv2", *arguments, "--out", out) == 0
    found = results(out)
    assert [row["method"] for row in found["rows"]] == ["EW", "MTAN, EW"]
    assert "EW: hps:width=8; MTAN, EW: mtan:width=8." in found["notes"][0]
    table = found["details"]["Beside the paper"]
    assert [row["from"] for row in table[:4]] == ["EW", "paper", "MTAN, EW", "paper"]
    assert table[0]["seg miou"] == found["rows"][0]["seg miou"]
    assert table[1]["depth abs_err"] == 0.3839
    assert "Delta_b" in table[0]
    assert "Delta_b" not in table[1]  # of the paper: over three tasks
    assert "Beside the paper" in (out / "report.html").read_text()
