"""One network per task: what is shared, what is not, and where it starts."""

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from helpers.small_sam2 import CHANNELS, SIZE, make_batch
from torchsims import Scalarized
from torchsims.models import HPS, SAM2MTL, Architecture, LeNet, SingleTask, dense_losses, find_regularizer
from torchsims.scalarizations import EW
from torchsims.training.trainable import frozen_sums, load_trainable_state, trainable_state

NASTY = ("mg/dL", "a.b", "heads", "x:y=1", "line\nbreak", "")
small_sam2 = partial(SAM2MTL, encoder="toy", rank=4, dropout=0.0, size=SIZE, norms=True)


def make_single(seed: int = 0) -> SingleTask:
    torch.manual_seed(seed)
    return SingleTask(CHANNELS, small_sam2)


def make_shared() -> SAM2MTL:
    torch.manual_seed(0)
    return small_sam2(CHANNELS)


def train(model: nn.Module, tasks: list[str]) -> nn.Module:
    """Take two steps, at a rate that makes up for the mean over tasks."""

    def task_losses(model: nn.Module, batch: dict[str, torch.Tensor]) -> Any:
        return dense_losses(model(batch["image"]), batch)

    method = Scalarized(model, EW(), outer=partial(SGD, lr=1e-2 * len(tasks)))
    for step in range(2):
        batch = make_batch(images=2, seed=step)
        method.step(task_losses, {name: batch[name] for name in ("image", *tasks)})
    return model.eval()


def test_it_starts_where_the_shared_sam2_does() -> None:
    image = make_batch()["image"]
    with torch.no_grad():
        single, shared = make_single()(image), make_shared()(image)
    assert all(torch.equal(single[task], shared[task]) for task in CHANNELS)


def test_every_network_starts_from_the_same_random_state() -> None:
    torch.manual_seed(0)
    outputs = {"left": 10, "right": 10}
    one, other = SingleTask(outputs, partial(LeNet, side=16)).networks
    torch.manual_seed(0)
    alone = LeNet(outputs, side=16)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a is not b
    assert torch.equal(one.get_parameter("encoder.0.weight"), alone.get_parameter("encoder.0.weight"))
    assert not torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(0)))  # it has advanced


def test_only_what_is_frozen_is_shared() -> None:
    single, shared = make_single(), make_shared()
    for copies in zip(*(network.parameters() for network in single.networks), strict=True):
        if copies[0].shape[0] in CHANNELS.values() and copies[0].requires_grad:  # prompts have one row per channel
            continue
        assert len({id(p) for p in copies}) == (len(CHANNELS) if copies[0].requires_grad else 1)
    trunks = nn.ModuleList([network.get_submodule("trunk") for network in single.networks])
    assert frozen_sums(trunks) == frozen_sums(shared.trunk)
    assert [len(network.get_submodule("heads")) for network in single.networks] == [1, 1, 1]  # type: ignore[arg-type]


def test_frozen_parameters_that_differ_are_kept_apart() -> None:
    def make(outputs: Mapping[str, int]) -> nn.Module:
        network = HPS(outputs, width=8).requires_grad_(False)
        with torch.no_grad():
            network.get_parameter("trunk.up.0.0.weight").fill_(len(*outputs))
        return network

    one, other = SingleTask({"a": 1, "bb": 1}, make).networks
    same = [a is b for a, b in zip(one.parameters(), other.parameters(), strict=True)]
    assert same.count(False) == 1
    assert {float(n.get_parameter("trunk.up.0.0.weight").mean()) for n in (one, other)} == {1.0, 2.0}


def test_training_all_at_once_is_training_each_alone() -> None:
    single, image = make_single(), make_batch(seed=9)["image"]
    with torch.no_grad():
        for parameter in single.parameters():  # away from zero, where nothing moves
            parameter.add_(0.15 * torch.randn_like(parameter))
    alone = {task: copy.deepcopy(network) for task, network in zip(single.tasks, single.networks, strict=True)}
    before = single(image)
    train(single, list(CHANNELS))
    for task, network in alone.items():
        train(network, [task])
        torch.testing.assert_close(single(image)[task], network(image)[task], rtol=0, atol=1e-5)
        assert (single(image)[task] - before[task]).abs().max() > 3e-4


def test_a_state_without_the_encoder_is_enough() -> None:
    trained, image = train(make_single(), list(CHANNELS)), make_batch()["image"]
    state = trainable_state(trained)
    assert not any("base_layer" in name for name in state)
    fresh = make_single().eval()
    load_trainable_state(fresh, state, frozen_sums(trained))
    assert all(torch.equal(fresh(image)[task], found) for task, found in trained(image).items())


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "hps"),
        ("HPS:width=8", "hps:width=8"),
        ("stl", "stl:of=hps"),
        ("stl:width=8:of=hps", "stl:of=hps:width=8"),
        ("stl:of=sam2:rank=4", "stl:of=sam2:rank=4"),
        ("sam2:norms=true:encoder=a/b:c", "sam2:norms=yes:encoder=a/b:c"),
        ("stl:of=torchsims.models:HPS:width=8", "stl:of=torchsims.models:HPS:width=8"),
    ],
)
def test_a_text_has_one_canonical_form(text: str, canonical: str) -> None:
    architecture = Architecture.parse(text, ["hps", "sam2"])
    assert str(architecture) == canonical
    assert Architecture.parse(canonical, ["hps", "sam2"]) == architecture
    single = str(architecture.as_single_task())
    assert single == canonical if canonical.startswith("stl") else f"stl:of={canonical}"


@pytest.mark.parametrize("text", ["hps:width=8", "lenet", "mlp", "sharedbottom", "mmoe", "ple"])
@pytest.mark.parametrize("single", [False, True])
def test_any_text_may_be_the_name_of_a_task(text: str, single: bool) -> None:
    architecture = Architecture.parse(text, [text.partition(":")[0]])
    dense = text.startswith("hps")
    inputs = [torch.rand(2, 3, 16, 16)] if dense else [torch.rand(2, 1, 16, 16)] if text == "lenet" else []
    arguments = {} if dense else {"side": 16} if text == "lenet" else {"numbers": 3}
    found = (architecture.as_single_task() if single else architecture).build(dict.fromkeys(NASTY, 2), arguments)
    out = found(*(inputs or [torch.rand(2, 3), torch.zeros(2, 0, dtype=torch.int64)]))
    assert tuple(out) == NASTY
    found.load_state_dict(found.state_dict())


def test_the_terms_of_all_networks_are_added() -> None:
    model = SingleTask(CHANNELS, partial(small_sam2, adapter="mtsam"))
    regularizer = find_regularizer(model)
    assert regularizer is not None
    networks: Any = model.networks
    terms = [network.regularizer() for network in networks]
    torch.testing.assert_close(regularizer(model), torch.stack(terms).sum())
    assert find_regularizer(make_single()) is None
