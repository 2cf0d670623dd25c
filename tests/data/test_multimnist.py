"""MultiMNIST: the two digits of a pair can be found in its image, bad files are named, units do not matter."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from helpers.commands import Call
from helpers.shared_data import shared
from helpers.training_cases import assert_same_tensors, checkpoint, preset
from torchsims.data import MultiMNIST
from torchsims.models import LeNet, SingleTask
from torchsims.training import resolve, train
from torchsims.workloads import load_workload

Bytes = npt.NDArray[np.uint8]
SIZES = {"train": 120, "t10k": 40}
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(array: Bytes) -> bytes:
    """Return an array in the format of MNIST."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.tobytes()


def made_up(prefix: str) -> tuple[Bytes, Bytes]:
    """Return noise, so that eight rows of it tell a digit from all others, and classes."""
    generator = np.random.default_rng(SIZES[prefix])
    count = SIZES[prefix]
    return generator.integers(0, 256, (count, 28, 28), np.uint8), generator.integers(0, 10, count, np.uint8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for prefix in SIZES:
        for kind, array in zip(("images-idx3", "labels-idx1"), made_up(prefix), strict=True):
            (folder / f"{prefix}-{kind}-ubyte").write_bytes(idx(array))
    return folder


def found(pairs: MultiMNIST, prefix: str) -> npt.NDArray[np.int64]:
    """Return which digits the images show, `pair x 2`, by the edges where only one of them is."""
    digits, _ = made_up(prefix)
    top = {digit[:8].tobytes(): i for i, digit in enumerate(digits)}
    bottom = {digit[-8:].tobytes(): i for i, digit in enumerate(digits)}
    images = pairs.images.numpy()
    return np.array([(top[i[:8, :28].tobytes()], bottom[i[-8:, -28:].tobytes()]) for i in images])


# The pairs.


@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("val", "train"), ("test", "t10k")])
def test_an_image_is_the_maximum_of_two_digits_and_their_classes_its_labels(
    split: str, prefix: str, root: Path
) -> None:
    pairs = MultiMNIST(root, split, size=50, seed=3)
    digits, classes = made_up(prefix)
    shown = found(pairs, prefix)
    assert (shown == pairs.digits).all()
    assert (pairs.labels.numpy() == classes[shown]).all()
    for image, (left, right) in zip(pairs.images.numpy(), shown, strict=True):
        one, other = np.zeros((2, 36, 36), np.uint8)
        one[:28, :28], other[8:, 8:] = digits[left], digits[right]
        assert (image == np.maximum(one, other)).all()


@pytest.mark.parametrize("seed", range(3))
def test_digits_to_validate_on_are_in_no_pair_of_training(seed: int, root: Path) -> None:
    train, val = (set(found(MultiMNIST(root, s, 500, seed), "train").ravel().tolist()) for s in ("train", "val"))
    assert (len(train), len(val)) == (108, 12)
    assert train | val == set(range(120))


def test_every_digit_is_as_often_on_either_side(root: Path) -> None:
    pairs = MultiMNIST(root, "test", size=3 * 40)
    for side in pairs.digits.T:
        for part in np.split(side, 3):
            assert sorted(part) == list(range(40))
    assert not np.array_equal(*pairs.digits.T)
    assert len(MultiMNIST(root, "test")) == 40


def test_pairs_depend_on_seed_and_split_alone(root: Path) -> None:
    one = MultiMNIST(root, "train", size=30, seed=5)
    torch.manual_seed(1)
    np.random.seed(1)  # whoever uses the global generator has no say
    more = MultiMNIST(root, "train", size=300, seed=5)
    assert torch.equal(one.images, more.images[:30])
    assert torch.equal(one.labels, more.labels[:30])
    assert not torch.equal(one.images, MultiMNIST(root, "train", size=30, seed=6).images)
    workload = load_workload("multimnist:images=30:pairs_seed=5", root=str(root))
    assert torch.equal(workload.split("train")[7]["image"], one[7]["image"])


def test_a_batch_has_colours_from_0_to_1(root: Path) -> None:
    pairs = MultiMNIST(root, "val", size=20)
    batch = pairs.batch([4, 0, 4])
    assert pairs.images.dtype == torch.uint8
    assert batch["image"].dtype == torch.float32
    assert torch.equal(batch["image"][1, 0], pairs.images[0] / 255)
    assert torch.equal(batch["image"][0], batch["image"][2])
    assert torch.equal(torch.stack([batch["left"], batch["right"]], 1), pairs.labels[[4, 0, 4]])


@pytest.mark.parametrize("prefix", ["train", "train30k"])
def test_gzipped_files_and_those_of_half_the_data_are_read_alike(prefix: str, root: Path) -> None:
    plain = MultiMNIST(root, "train")
    for name in (IMAGES, LABELS):
        content = (root / name).read_bytes()
        (root / name).unlink()
        (root / f"{name.replace('train', prefix)}.gz").write_bytes(gzip.compress(content))
    assert torch.equal(MultiMNIST(root, "train").images, plain.images)


# Bad files.


def spoil_header(place: int, value: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([value]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        (
            IMAGES,
            lambda content: content[:5000],
            "should hold 120 x 28 x 28 = 94080 bytes after its sizes. Found 4984.",
        ),
        (IMAGES, lambda content: content + b"1", "= 94080 bytes after its sizes. Found 94081."),
        (IMAGES, lambda content: gzip.compress(content)[:5000], "should be an idx file. Found one that cannot be read"),
        (IMAGES, lambda content: content[:9], "should begin with 16 bytes of magic number and sizes. Found 9 bytes."),
        (IMAGES, lambda content: b"", "should begin with 16 bytes of magic number and sizes. Found 0 bytes."),
        (
            IMAGES,
            lambda content: b"<html>not found</html>",
            "should begin with the magic number 2051. Found 1013478509.",
        ),
        (IMAGES, spoil_header(2, 13), "should begin with the magic number 2051. Found 3331."),  # floating-point numbers
        (IMAGES, lambda content: idx(made_up("train")[1]), "should begin with the magic number 2051. Found 2049."),
        (LABELS, lambda content: idx(made_up("train")[0]), "should begin with the magic number 2049. Found 2051."),
        (
            IMAGES,
            lambda content: idx(made_up("train")[0][:, 1:]),
            "two or more images of 28 x 28. Found 120 of 27 x 28.",
        ),
        (IMAGES, lambda content: idx(made_up("train")[0][:1]), "two or more images of 28 x 28. Found 1 of 28 x 28."),
        (
            LABELS,
            lambda content: idx(made_up("train")[1][:99]),
            "should hold a label for each of 120 images. Found 99.",
        ),
        (LABELS, lambda content: content[:-1] + bytes([10]), "should hold labels below 10. Found 10."),
    ],
)
def test_a_bad_file_is_named(name: str, spoil: Callable[[bytes], bytes], sentence: str, root: Path) -> None:
    (root / name).write_bytes(spoil((root / name).read_bytes()))
    with pytest.raises(ValueError, match=name) as error:
        MultiMNIST(root)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"split": "validation"}, "Parameter `split` should be one of train, val, test. Found `split = 'validation'`."),
        ({"size": 0}, "Parameter `size` should be positive. Found `size = 0`."),
        ({"seed": -1}, "Parameter `seed` should not be negative. Found `seed = -1`."),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], sentence: str, root: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        MultiMNIST(root, **arguments)


def test_what_a_folder_lacks_is_listed(root: Path) -> None:
    (root / LABELS).unlink()
    assert MultiMNIST.missing(root, "val") == [LABELS]
    assert MultiMNIST.missing(root, "test") == []
    with pytest.raises(FileNotFoundError, match=f"should hold the files of MNIST. Missing: {LABELS}."):
        MultiMNIST(root, "val")


# The networks.


@pytest.mark.parametrize(("single", "others"), [(False, "heads.1"), (True, "networks.1")])
def test_a_task_trains_what_is_shared_and_what_is_its_own(single: bool, others: str) -> None:
    torch.manual_seed(0)
    make, outputs = partial(LeNet, side=36), {"left": 10, "right": 10}
    model = SingleTask(outputs, make) if single else make(outputs)
    cross_entropy(model(torch.rand(8, 1, 36, 36))["left"], torch.arange(8)).backward()  # type: ignore[no-untyped-call]
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved == {name for name, _ in model.named_parameters() if not name.startswith(others)}


@pytest.mark.parametrize("side", [16, 17, 28, 36])
def test_an_image_may_have_any_side_from_16(side: int) -> None:
    assert LeNet({"left": 3}, side, channels=2)(torch.rand(2, 1, side, side))["left"].shape == (2, 3)
    with pytest.raises(ValueError, match=r"Parameter `side` should be at least 16. Found `side = 15`"):
        LeNet({"left": 3}, 15)


@pytest.mark.parametrize(("name", "kind"), [("lenet", LeNet), ("stl", SingleTask)])
def test_losses_of_either_network_are_means_of_cross_entropy(name: str, kind: type[nn.Module], root: Path) -> None:
    workload = load_workload("multimnist:images=50", root=str(root))
    batch = workload.split("train").batch(range(50))  # type: ignore[attr-defined]
    model = workload.build_model(name)
    assert isinstance(model, kind)
    predictions = workload.predict(model, batch)
    for task, loss in workload.losses(predictions, batch).mean().items():
        torch.testing.assert_close(loss, cross_entropy(predictions[task].double(), batch[task]))


# Runs.


def test_runs_leave_pages_and_a_rescaled_one_the_same_tensors(root: Path, call: Call, tmp_path: Path) -> None:
    quick = ["--data", "multimnist:images=64", "--root", root, "--epochs", 2, "--batch", 16, "--method", "sims"]
    rows = []
    for name, extra in (("plain", []), ("scaled", ["--rescale", "left=128"])):
        assert call("train", *quick, *extra, "--out", tmp_path / name) == 0
        assert (tmp_path / name / "report.html").is_file()
        rows += json.loads((tmp_path / name / "results.json").read_text())["rows"]
    assert_same_tensors(checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "scaled"))
    plain, scaled = ({key: value for key, value in row.items() if key != "method"} for row in rows)
    assert plain == scaled
    assert {"left accuracy", "right accuracy"} <= plain.keys()
    assert call("report", tmp_path / "plain", tmp_path / "scaled", "--out", tmp_path / "page") == 0
    joined = json.loads((tmp_path / "page" / "results.json").read_text())["rows"]
    assert [{key: row[key] for key in row.keys() & rows[0].keys()} for row in joined] == [
        {key: value for key, value in row.items() if key != "seed"} for row in rows
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "MultiMNIST is made of files in a folder: name it with `root`. Found none."),
        (["--root", "mnist"], "Missing: train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte."),
        (["--data", "multimnist:images=0"], "Option `images` should be positive. Found `images=0`."),
        (["--data", "multimnist:pairs_seed=-1"], "Option `pairs_seed` should not be negative."),
        (["--tasks", "left,rigth"], "There is no task `rigth`. Did you mean `right`?"),
        (["--tasks", "left,left"], "Parameter `tasks` should hold distinct names."),
        (["--model", "lennet"], "There is no model `lennet`. Did you mean `lenet`?"),
        (["--model", "lenet:hidden=0"], "Parameter `hidden` should be positive. Found `hidden = 0`."),
        (["--model", "stl:channels=0"], "Parameter `channels` should be positive. Found `channels = 0`."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    call: Call,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(root.parent)
    for path in root.iterdir():
        if path.name != IMAGES:
            path.unlink()
    assert call("train", "--data", "multimnist", *arguments) == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert len(errors.strip().splitlines()) == 1
    assert list(root.parent.iterdir()) == [root]


def test_one_task_alone_is_trained(root: Path, tmp_path: Path) -> None:
    settings = preset("small", data="multimnist:images=32", root=str(root), tasks=("right",), batch=16, method="ew")
    assert list(train(settings, tmp_path / "run").metrics) == ["right"]


def test_real_digits_are_learned(tmp_path: Path) -> None:
    root = str(shared("mnist"))
    changes: dict[str, Any] = {"data": "multimnist:images=2000", "epochs": 1, "batch": 32}
    run = train(preset("small", root=root, method="ew", **changes), tmp_path / "run")
    assert all(metrics["accuracy"] > 0.5 for metrics in run.metrics.values())
    workload = resolve(run.config).workload
    assert [workload.items(split) for split in ("train", "val", "test")] == [2000, 200, 10_000]
