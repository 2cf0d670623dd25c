"""Scenes are geometry: depth, normals, labels and edges agree, and an image depends on its number alone."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d
from torch.utils.data import DataLoader

from helpers.camera import back_project
from torchsims.data.scenes import CLASSES, Scenes
from torchsims.data.scenes._dataset import SPLITS

TASKS = ("seg", "depth", "normals", "edges")


@pytest.fixture(scope="module")
def many() -> dict[str, Tensor]:
    return Scenes("train", size=200, tasks=TASKS).batch(range(200))


def neighbours(values: Tensor) -> list[Tensor]:
    """Return left, right, upper and lower neighbours of the inner pixels."""
    return [values[..., 1:-1, :-2], values[..., 1:-1, 2:], values[..., :-2, 1:-1], values[..., 2:, 1:-1]]


@pytest.mark.parametrize("resolution", [(128, 128), (96, 160)])
def test_back_projected_depth_recovers_the_normals(resolution: tuple[int, int]) -> None:
    batch = Scenes("val", size=24, seed=3, resolution=resolution, tasks=TASKS).batch(range(24))
    points = back_project(batch["depth"].double())
    left, right, above, below = neighbours(points)
    found = torch.linalg.cross(below - above, right - left, dim=1)  # towards the camera: y is down and z forward
    found = found / found.norm(dim=1, keepdim=True)
    normals = batch["normals"].double()
    inner, around = normals[..., 1:-1, 1:-1], neighbours(normals)
    cosines = torch.stack([(inner * other).sum(1) for other in around]).amin(0)
    seg = batch["seg"][..., 1:-1, 1:-1]
    inside = torch.stack([seg == other for other in neighbours(batch["seg"])]).all(0)
    inside &= max_pool2d(batch["edges"], 3, 1, 1)[:, 0, 1:-1, 1:-1] == 0
    angle = torch.atan2(torch.linalg.cross(inner, found, dim=1).norm(dim=1), (inner * found).sum(1)).rad2deg()

    flat = angle[inside & (cosines > 1 - 1e-6)]
    assert flat.numel() > angle.numel() / 2
    assert flat.quantile(0.999) < 0.05  # what is left are solids that touch each other
    curved = angle[inside & (cosines > 0.97) & (cosines <= 1 - 1e-6)]
    assert curved.numel() > 1000
    assert curved.quantile(0.98) < 2


def test_normals_are_unit_vectors_that_face_the_camera(many: dict[str, Tensor]) -> None:
    valid = many["depth"][:, 0] > 0
    length = many["normals"].norm(dim=1)
    torch.testing.assert_close(length[valid], torch.ones_like(length[valid]))
    assert (length[~valid] == 0).all()
    assert (
        (many["normals"] * back_project(many["depth"])).sum(1)[valid] < 1e-3
    ).all()  # zero, to rounding, on the outline of a ball


def test_values_lie_in_their_ranges(many: dict[str, Tensor]) -> None:
    assert all(value.isfinite().all() for value in many.values())
    assert many["image"].min() >= 0
    assert many["image"].max() <= 1
    assert many["image"].std(dim=(0, 2, 3)).min() > 0.1
    assert many["seg"].dtype == torch.int64
    known = many["depth"][many["depth"] > 0]
    assert 0.2 < known.min() < 1.5
    assert 6 < known.max() < 12
    assert torch.isin(many["edges"], torch.tensor([0.0, 1.0])).all()
    assert 0.01 < many["edges"].mean() < 0.1


def test_every_class_and_every_kind_of_missing_label_appears(many: dict[str, Tensor]) -> None:
    share = torch.bincount(many["seg"].flatten() + 1, minlength=len(CLASSES) + 1) / many["seg"].numel()
    assert len(share) == len(CLASSES) + 1
    assert (share > 0.004).all(), share
    assert share.max() < 0.5
    assert 0.005 < (many["depth"] == 0).float().mean() < 0.1
    assert (many["depth"][:, 0][many["seg"] == CLASSES.index("window")] == 0).all()


def test_an_image_depends_on_its_number_alone() -> None:
    scenes = Scenes("train", size=50, seed=7, tasks=TASKS)
    expected = scenes.batch(range(10))
    torch.manual_seed(123)
    state = torch.get_rng_state()
    for indices in ([4], [9, 4], [4, 4, 1], [3, 8, 4, 0, 2, 1, 7], [4 - 50]):
        batch = scenes.batch(indices)
        for name, values in batch.items():
            assert torch.equal(values, expected[name][[i % 50 for i in indices]]), name
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in Scenes("train", size=1000, seed=7, tasks=TASKS)[4].items():
        assert torch.equal(value, expected[name][4])


def test_splits_seeds_and_numbers_differ() -> None:
    keys = [(split, seed) for split in SPLITS for seed in (0, 1)]
    images = torch.cat([Scenes(split, size=4, seed=seed).batch(range(4))["image"] for split, seed in keys])
    differences = (images.flatten(1)[:, None] - images.flatten(1)[None]).abs().mean(-1)
    assert (differences + torch.eye(len(images)) > 0.05).all()


def test_a_loader_renders_whole_batches() -> None:
    scenes = Scenes("test", size=10)
    batches = list(DataLoader(scenes, batch_size=4))
    assert [len(batch["image"]) for batch in batches] == [4, 4, 2]
    assert torch.equal(batches[1]["normals"][2], scenes[6]["normals"])
    assert set(batches[0]) == {"image", "seg", "depth", "normals"}


def test_edges_are_where_something_stands_before_something_else() -> None:
    batch = Scenes("val", size=16, tasks=TASKS).batch(range(16))
    depth, edges = batch["depth"], batch["edges"][..., 1:-1, 1:-1] > 0
    farthest = torch.stack([other.where(other > 0, 0) for other in neighbours(depth)]).amax(0)
    known = (depth[..., 1:-1, 1:-1] > 0) & torch.stack([other > 0 for other in neighbours(depth)]).all(0)
    assert (farthest > 1.1 * depth[..., 1:-1, 1:-1])[edges & known].all()
    things = (batch["seg"] >= CLASSES.index("box"))[:, None, 1:-1, 1:-1]
    assert not edges[~things & (batch["seg"][:, None, 1:-1, 1:-1] >= 0)].any()  # a room hides nothing
    far_behind = (farthest > 1.3 * depth[..., 1:-1, 1:-1]) & known & things
    assert far_behind.any()
    assert edges[far_behind].float().mean() > 0.99  # the rest is the side of a box at a small angle


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tests"}, "Parameter `split` should be one of train, val, test. Found `split = 'tests'`."),
        ({"size": 0}, "Parameter `size` should be positive. Found `size = 0`."),
        ({"seed": -1}, "Parameter `seed` should not be negative. Found `seed = -1`."),
        ({"resolution": (64, 1)}, "Parameter `resolution` should be two numbers from 2 up"),
        ({"tasks": "seg"}, "Parameter `tasks` should be a sequence out of seg, depth, normals, edges. Found 'seg'."),
        ({"tasks": ("flow",)}, "Parameter `tasks` should be a sequence out of"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Scenes(**options)  # type: ignore[arg-type]


def test_a_number_out_of_range_is_refused() -> None:
    with pytest.raises(IndexError, match="below 3"):
        Scenes(size=3)[3]
