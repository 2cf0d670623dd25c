"""MultiMNIST: the two digits of a pair can be found in its image, bad files are named."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from helpers.small_digits import IMAGES, LABELS, idx, make_digits, write_digits
from torchsims.data import MultiMNIST
from torchsims.workloads import load_workload


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_digits(tmp_path / "mnist")


def found(pairs: MultiMNIST, prefix: str) -> npt.NDArray[np.int64]:
    """Return which digits the images show, `pair x 2`, by the edges where only one of them is."""
    digits, _ = make_digits(prefix)
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
    digits, classes = make_digits(prefix)
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
        (IMAGES, lambda content: idx(make_digits("train")[1]), "should begin with the magic number 2051. Found 2049."),
        (LABELS, lambda content: idx(make_digits("train")[0]), "should begin with the magic number 2049. Found 2051."),
        (
            IMAGES,
            lambda content: idx(make_digits("train")[0][:, 1:]),
            "two or more images of 28 x 28. Found 120 of 27 x 28.",
        ),
        (
            IMAGES,
            lambda content: idx(make_digits("train")[0][:1]),
            "two or more images of 28 x 28. Found 1 of 28 x 28.",
        ),
        (
            LABELS,
            lambda content: idx(make_digits("train")[1][:99]),
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
