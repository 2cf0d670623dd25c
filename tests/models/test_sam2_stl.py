"""One network a task with the paper's model: what is shared, what is not, and where it starts."""

import copy
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from helpers.small_sam2 import CHANNELS, SIZE, make_batch
from torchsims import Scalarized
from torchsims.experiments.compare import variant
from torchsims.models import SAM2MTL, SAM2STL, dense_losses, sam2_config
from torchsims.scalarizations import EW
from torchsims.training import Settings
from torchsims.training._trainable import frozen_sums, load_trainable_state, trainable_state


def make(kind: type[Any] = SAM2STL) -> Any:
    torch.manual_seed(0)
    shared = SAM2MTL(CHANNELS, sam2_config("toy"), rank=4, dropout=0.0, size=SIZE, norms=True)
    return shared if kind is SAM2MTL else kind(shared)


def train(model: nn.Module, tasks: list[str]) -> nn.Module:
    """Take three steps, at a rate that makes up for the mean over tasks."""

    def task_losses(model: nn.Module, batch: dict[str, torch.Tensor]) -> Any:
        return dense_losses(model(batch["image"]), batch)

    method = Scalarized(model, EW(), outer=partial(SGD, lr=1e-2 * len(tasks)))
    for step in range(3):
        batch = make_batch(images=2, seed=step)
        method.step(task_losses, {name: batch[name] for name in ("image", *tasks)})
    return model.eval()


def test_it_starts_where_the_shared_model_does() -> None:
    image = make_batch()["image"]
    single, shared = (make(kind)(image) for kind in (SAM2STL, SAM2MTL))
    assert all(torch.equal(single[task], shared[task]) for task in CHANNELS)


def test_only_what_is_frozen_is_shared() -> None:
    single, shared = make(), make(SAM2MTL)
    per_task = [list(network.trunk.parameters()) for network in single.networks.values()]
    for copies in zip(*per_task, strict=True):
        assert len({id(p) for p in copies}) == (len(CHANNELS) if copies[0].requires_grad else 1)
    assert frozen_sums(single) == frozen_sums(shared)
    heads = [list(network.heads) for network in single.networks.values()]
    assert heads == [[task] for task in CHANNELS]


def test_training_all_at_once_is_training_each_alone() -> None:
    single, image = make(), make_batch(seed=9)["image"]
    with torch.no_grad():
        for parameter in single.parameters():  # away from zero, where nothing moves
            parameter.add_(0.15 * torch.randn_like(parameter))
    alone = {task: copy.deepcopy(network) for task, network in single.networks.items()}
    before = single(image)
    train(single, list(CHANNELS))
    for task, network in alone.items():
        train(network, [task])
        torch.testing.assert_close(single(image)[task], network(image)[task], rtol=0, atol=1e-5)
        assert (single(image)[task] - before[task]).abs().max() > 1e-3


def test_a_state_without_the_encoder_is_enough() -> None:
    trained, image = train(make(), list(CHANNELS)), make_batch()["image"]
    state = trainable_state(trained)
    assert not any("base_layer" in name for name in state)
    fresh = make().eval()
    load_trainable_state(fresh, state, frozen_sums(trained))
    assert all(torch.equal(fresh(image)[task], found) for task, found in trained(image).items())


def test_the_single_networks_of_a_table_are_of_its_kind() -> None:
    base = Settings.of("ablation", data="nyuv2", model="sam2:rank=8")
    found = variant(base, "stl:norms=yes")
    assert found.label == "STL, EW"
    assert found.model == f"{base.model.replace('sam2:', 'sam2stl:')}:norms=yes"
    assert "hiera-tiny" in found.model
    assert variant(Settings(model="hps:width=8"), "stl").model == "stl:width=8"
