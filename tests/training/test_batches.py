"""Which items make up which step, and the learning rate of each step."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from torchsims.training.batches import AHEAD, load_batches, shards, training_batches
from torchsims.training.seeding import mix
from torchsims.training.trainer import warmup_then_decay
from torchsims.workloads import InMemory, Items


def test_an_epoch_shows_every_item_once() -> None:
    for epoch in range(3):
        assert sorted(training_batches(12, 3, 5, epoch).flatten().tolist()) == list(range(12))
    assert not torch.equal(training_batches(12, 3, 5, 0), training_batches(12, 3, 5, 1))


@pytest.mark.parametrize(("items", "batch"), [(5, 2), (12, 3), (1000, 7), (9, 9)])
def test_batches_are_those_of_a_list_of_all(items: int, batch: int) -> None:
    for seed, epoch in ((0, 0), (3, 2)):
        order = torch.randperm(items, generator=torch.Generator().manual_seed(mix(seed, epoch))).tolist()  # 64 bit
        everything = [order[start : start + batch] for start in range(0, items - batch + 1, batch)]
        found = training_batches(items, batch, seed, epoch)
        assert found.tolist() == everything
        for start in range(len(everything) + 1):  # a run that goes on begins in the middle
            assert found[start:].tolist() == everything[start:]


def test_the_order_is_the_one_it_has_always_been() -> None:
    assert training_batches(5, 2, seed=0, epoch=0).tolist() == [[3, 1], [2, 4]]
    assert training_batches(5, 2, seed=0, epoch=1).tolist() == [[1, 4], [0, 2]]


def test_an_item_takes_four_bytes() -> None:
    assert training_batches(1000, 10, 0, 0).element_size() == 4  # a list of 84 million items has 3 GB


@pytest.mark.parametrize(("ranks", "parts"), [(1, 1), (2, 1), (3, 2)])
def test_shards_make_up_the_batch(ranks: int, parts: int) -> None:
    batch = [9, 4, 7, 1, 0, 3, 2]
    found = [item for rank in range(ranks) for part in shards(batch, rank, ranks, parts) for item in part]
    assert sorted(found) == sorted(batch)


def test_a_batch_without_an_item_for_everyone_is_refused() -> None:
    with pytest.raises(ValueError, match="an item for each of 2 ranks and 3 micro-batches"):
        shards([1, 2, 3, 4], 1, 2, 3)


def test_a_data_set_without_batches_is_asked_for_plain_numbers() -> None:
    asked: list[int] = []

    class Numbers(Dataset[int]):
        def __getitem__(self, index: int) -> int:
            asked.append(index)
            return 10 * index

    batches = training_batches(6, 3, 0, 0)
    (first,) = load_batches(Numbers(), [batches[0].numpy()], 0)
    assert first.tolist() == [10 * index for index in asked] == (10 * batches[0]).tolist()
    assert {type(index) for index in asked} == {int}


def test_places_of_items_are_wide_enough_for_offsets_in_a_file() -> None:
    class Packed(Dataset[Any]):
        def __len__(self) -> int:
            return 600_000

        def batch(self, items: Items) -> dict[str, torch.Tensor]:
            return {"offset": torch.from_numpy(np.asarray(items) * 4096)}

    order = training_batches(600_000, 64, 0, 0)
    (first,) = load_batches(Packed(), [order[0].numpy()], 0)
    assert torch.equal(first["offset"], order[0].long() * 4096)


def test_items_may_be_a_list_or_an_array() -> None:
    data = InMemory({"x": torch.arange(12).view(6, 2)})
    batches = training_batches(6, 3, 0, 0)
    for items in (batches[0].tolist(), batches[0].numpy(), batches[0].numpy()[::2]):
        (found,) = load_batches(data, [items], 0)
        assert found["x"].tolist() == [[2 * item, 2 * item + 1] for item in items]


@pytest.mark.parametrize("steps", [0, 1, AHEAD, AHEAD + 1, 3 * AHEAD - 1])
def test_data_in_memory_is_read_ahead_and_in_order(steps: int) -> None:
    data, batches = InMemory({"x": torch.arange(100)}), [[step, step + 50] for step in range(steps)]
    assert [batch["x"].tolist() for batch in load_batches(data, batches, 0)] == batches


def test_other_data_is_read_when_it_is_needed() -> None:
    asked: list[Items] = []

    class Random(Dataset[Any]):  # its items may depend on a random generator, whose state depends on the step
        def __len__(self) -> int:
            return 9

        def batch(self, items: Items) -> dict[str, torch.Tensor]:
            asked.append(items)
            return {}

    loaded = load_batches(Random(), [[1], [2], [3]], 0)
    assert [(next(loaded), len(asked)) for _ in range(3)] == [({}, 1), ({}, 2), ({}, 3)]


def test_near_seeds_have_nothing_in_common() -> None:
    seeds = [mix(seed, step) for seed in range(40) for step in range(40)]
    assert len(set(seeds)) == len(seeds)
    bits = np.array([[seed >> k & 1 for k in range(63)] for seed in seeds])
    assert abs(bits.mean(0) - 0.5).max() < 0.06  # 4.8 standard errors


def test_the_rate_rises_then_falls_to_nothing() -> None:
    factors = [warmup_then_decay(step, 1000, 0.1) for step in range(1000)]
    assert max(factors) == factors[99] == 1.0
    assert all(a < b for a, b in pairwise(factors[:100]))
    assert all(a > b for a, b in pairwise(factors[100:]))
    assert 0 < factors[-1] < 2e-3
