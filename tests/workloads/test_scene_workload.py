"""Rendered rooms: who shares them."""

from typing import Any

import pytest
import torch

from torchsims.data import Scenes
from torchsims.workloads import load_workload

SMALL = "scenes:images=8:resolution=16"


def test_a_second_workload_takes_the_images_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    render = Scenes.batch

    def counted(self: Scenes, items: Any) -> Any:
        rendered.append(self.split)
        return render(self, items)

    monkeypatch.setattr(Scenes, "batch", counted)
    texts = [f"{SMALL}:scene_seed={seed}" for seed in (5, 5, 6)]
    one, same, other = map(load_workload, texts)
    for name in ("train", "val", "test"):
        rendered.clear()
        first, second = one.split(name), same.split(name)
        assert rendered == [name]
        assert torch.equal(first[3]["image"], second[3]["image"])
        assert not torch.equal(first[3]["image"], other.split(name)[3]["image"])


def test_who_changes_an_image_changes_it_for_one_workload() -> None:
    one, same = load_workload(SMALL), load_workload(SMALL)
    one.split("train")[0]["image"].zero_()
    assert same.split("train")[0]["image"].any()
    assert load_workload(SMALL).split("train")[0]["image"].any()
