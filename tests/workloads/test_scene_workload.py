"""Rendered rooms: who shares them."""

import torch

from torchsims.data import Scenes
from torchsims.workloads import load_workload

SMALL = "scenes:images=8:resolution=16"


def test_a_second_workload_takes_the_images_of_the_first() -> None:
    one, same, other = (load_workload(text) for text in (SMALL, SMALL, f"{SMALL}:scene_seed=1"))
    for name in ("train", "val", "test"):
        assert one.split(name) is same.split(name)
        expected = Scenes(name, one.items(name), 1, (16, 16)).batch(range(4))
        found = other.split(name).batch(range(4))  # type: ignore[attr-defined]
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[field], expected[field]) for field in found)
    assert one.split("train") is same.split("train")  # although others were rendered since
