"""Cross-Stitch, NDDR, MTAN and DenseMTL: the networks that they are in their limits, and their sizes."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from helpers.small_encoders import mobilenet_config
from torchsims import Aggregated
from torchsims.aggregations import MGDA
from torchsims.models import HPS, MODELS, MTAN, NDDR, Architecture, CrossStitch, DenseMTL, DenseNetwork, SingleTask
from torchsims.workloads.dense import DenseWorkload

OUTPUTS = {"seg": 13, "depth": 1, "normals": 3}
TASKS = tuple(OUTPUTS)
ARCHITECTURES: dict[str, Callable[..., Any]] = {
    "crossstitch": CrossStitch,
    "per channel": partial(CrossStitch, per_channel=True),
    "nddr": NDDR,
    "mtan": MTAN,
    "densemtl": DenseMTL,
}
IMAGE = torch.rand(2, 3, 48, 64, generator=torch.Generator().manual_seed(0))


def numbers(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def stir(model: nn.Module) -> None:
    """Move every parameter away from where it starts, reproducibly, so that no law holds by symmetry."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))


def single_tasks(outputs: dict[str, int] = OUTPUTS, **options: Any) -> SingleTask:
    torch.manual_seed(0)
    made = SingleTask(outputs, lambda own: HPS(own, head="light", width=8, **options))
    stir(made)
    return made


def started(make: Callable[..., Any], single: SingleTask, **options: Any) -> Any:
    torch.manual_seed(1)
    model = make(OUTPUTS, head="light", width=8, **options)
    model.load_single_task(single.state_dict(), single.tasks)
    return model


def assert_equal_outputs(one: nn.Module, other: nn.Module, atol: float = 0.0) -> None:
    with torch.no_grad():
        found, expected = one.eval()(IMAGE), other.eval()(IMAGE)
    assert list(found) == list(expected)
    for task, out in found.items():
        assert out.std() > 0
        torch.testing.assert_close(out, expected[task], rtol=0, atol=atol)


# Sizes.


@pytest.mark.parametrize(
    ("make", "encoder", "total"),
    [
        (CrossStitch, "resnet50", 118_904_785 + 36),
        (partial(CrossStitch, per_channel=True), "resnet50", 118_904_785 + 34_560),
        (NDDR, "resnet50", 169_100_113),
        (MTAN, "resnet50", 92_347_921),
        (DenseMTL, "resnet101", 111_006_370),
    ],
)
def test_numbers_of_parameters_are_those_of_the_papers(make: Callable[..., Any], encoder: str, total: int) -> None:
    with torch.device("meta"):
        assert numbers(make(OUTPUTS, encoder=encoder)) == total


def test_parts_have_the_numbers_of_parameters_of_the_papers() -> None:
    with torch.device("meta"):
        mtan, dense = MTAN(OUTPUTS, encoder="resnet50"), DenseMTL(OUTPUTS, encoder="resnet101")
    assert numbers(mtan.encoder) + numbers(mtan.attentions) + numbers(mtan.refinements) == 43_967_232
    parts = [numbers(part) for part in (dense.encoder, dense.decoders, dense.exchanges)]
    assert parts == [42_500_160, 66_187_618, 2_318_592]
    assert [level.stride for level in dense.encoder.levels] == [4, 8, 16, 16]


# Limits.


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("encoder", ["small", "mobilenet"])
def test_cross_stitch_with_the_identity_is_single_task_learning(per_channel: bool, encoder: str) -> None:
    options = {"encoder": mobilenet_config()} if encoder == "mobilenet" else {}
    single = single_tasks(**options)
    model = started(CrossStitch, single, per_channel=per_channel, **options)
    with torch.no_grad():
        for mix in model.mixes:
            mix.copy_(torch.eye(3).view(3, 3, *[1] * (mix.dim() - 2)))
    assert_equal_outputs(model, single)


def test_cross_stitch_of_equal_encoders_is_hard_parameter_sharing() -> None:
    torch.manual_seed(0)
    model, shared = CrossStitch(OUTPUTS, width=8), HPS(OUTPUTS, width=8, head="light")
    for encoder in model.encoders:
        encoder.load_state_dict(shared.trunk.state_dict())
    shared.heads.load_state_dict(model.heads.state_dict())
    with torch.no_grad():
        for mix in model.mixes:
            mix.copy_(torch.rand(3, 3).softmax(dim=1))
    assert_equal_outputs(model, shared, atol=1e-5)


@pytest.mark.parametrize("identity", [False, True])
def test_nddr_without_norms_is_cross_stitch_and_with_the_identity_single_task_learning(identity: bool) -> None:
    single = single_tasks()
    model, twin = started(NDDR, single), started(CrossStitch, single)
    for fusion in model.fusions:
        fusion[1] = fusion[2] = nn.Identity()
        if identity:
            nn.init.dirac_(fusion[0].weight)
    if identity:
        assert_equal_outputs(model, single, atol=1e-5)
        return
    # Cross-Stitch leaves the stem alone; mix it by hand.
    mix = twin.mix
    twin.mix = lambda level, features: (
        [sum(w * x for w, x in zip(row, features, strict=True)) for row in twin.initial_mix()]
        if level == 0
        else mix(level, features)
    )
    assert_equal_outputs(model, twin, atol=1e-4)


def test_mtan_with_open_masks_is_hard_parameter_sharing() -> None:
    torch.manual_seed(0)
    model, shared = MTAN(OUTPUTS, width=8), HPS(OUTPUTS, width=8, head="light")
    stir(model)
    shared.trunk.load_state_dict(model.encoder.state_dict())
    shared.heads.load_state_dict(model.heads.state_dict())
    for attention in (a for attentions in model.attentions for a in attentions):  # type: ignore[attr-defined]
        nn.init.zeros_(attention[4].weight)
        nn.init.constant_(attention[4].bias, 40.0)
    assert_equal_outputs(model, shared)


def test_densemtl_without_the_exchange_has_independent_decoders() -> None:
    torch.manual_seed(0)
    model = DenseMTL(OUTPUTS, width=16)
    stir(model)
    reached = _reached(model)
    assert all(reached[task] == set(TASKS) for task in TASKS)
    for exchange in model.exchanges:
        nn.init.zeros_(exchange.fuse[1].weight)  # type: ignore[union-attr, index]
        nn.init.zeros_(exchange.fuse[1].bias)  # type: ignore[union-attr, index]
    assert _reached(model) == {task: {task} for task in TASKS}


def _reached(model: DenseMTL) -> dict[str, set[str]]:
    """Return the tasks to whose decoders the gradient of each task goes."""
    found = {}
    for task in TASKS:
        model.zero_grad()
        model(IMAGE)[task].square().sum().backward()
        found[task] = {
            other
            for other, decoder in zip(TASKS, model.decoders, strict=True)
            if any(p.grad is not None and p.grad.any() for p in decoder.parameters())
        }
    return found


def test_densemtl_starts_without_attention_between_tasks() -> None:
    torch.manual_seed(0)
    model = DenseMTL(OUTPUTS, width=16)
    with torch.no_grad():
        before = model(IMAGE)
        pairs = [pair for exchange in model.exchanges for pair in exchange.pairs]  # type: ignore[union-attr]
        for pair in pairs:
            stir(pair.query)
            stir(pair.key)
        assert all(torch.equal(out, before[task]) for task, out in model(IMAGE).items())
        for pair in pairs:
            pair.alpha.fill_(1.0)
        assert all(not torch.equal(out, before[task]) for task, out in model(IMAGE).items())


# Order of the tasks.


def permuted(model: nn.Module, order: list[int]) -> dict[str, Tensor]:
    """Return the state of the same network with its tasks in another order."""
    state, tasks = model.state_dict(), len(order)
    found = {}
    for name, value in state.items():
        kind, *rest = name.split(".")
        if kind in ("encoders", "heads", "attentions", "decoders"):
            found[".".join([kind, str(order.index(int(rest[0]))), *rest[1:]])] = value
        elif kind == "mixes":
            found[name] = value[order][:, order]
        elif kind == "fusions" and value.dim() == 4:
            blocks = value.view(tasks, len(value) // tasks, tasks, -1)
            found[name] = blocks[order][:, :, order].reshape(value.shape)
        elif kind == "fusions":
            found[name] = value.view(tasks, -1)[order].flatten()
        elif kind == "exchanges":
            found |= _permuted_exchange(name, value, order)
        else:
            found[name] = value
    return found


def _permuted_exchange(name: str, value: Tensor, order: list[int]) -> dict[str, Tensor]:
    kind, place, part, *rest = name.split(".")
    target = int(place)
    old = [task for task in range(len(order)) if task != target]  # sources, as they are numbered in the module
    new = [task for task in order if task != target]
    if part == "fuse" and value.dim() == 4:
        blocks = value.view(len(value), len(old), -1, 1, 1)
        value = blocks[:, [old.index(task) for task in new]].reshape(value.shape)
    elif part == "pairs":
        rest = [str(new.index(old[int(rest[0])])), *rest[1:]]
    return {".".join([kind, str(order.index(target)), part, *rest]): value}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_permuting_the_tasks_permutes_the_outputs(name: str) -> None:
    torch.manual_seed(0)
    model = ARCHITECTURES[name](OUTPUTS, width=16)
    stir(model)
    order = [2, 0, 1]
    other = ARCHITECTURES[name]({TASKS[i]: OUTPUTS[TASKS[i]] for i in order}, width=16)
    other.load_state_dict(permuted(model, order))
    with torch.no_grad():
        found, expected = other(IMAGE), model(IMAGE)
    assert list(found) == [TASKS[i] for i in order]
    for task in TASKS:
        torch.testing.assert_close(found[task], expected[task], rtol=0, atol=1e-4)


def test_names_in_a_state_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "import torch; from torchsims.models import DenseMTL; torch.manual_seed(0);"
        "model = DenseMTL(dict(seg=2, depth=1, normals=3), width=8);"
        "print([(name, value.double().sum().item()) for name, value in model.state_dict().items()])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# What does not go together.


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("crossstitch", "encoders.0.stages.3"),
        ("nddr", "encoders.0.stages.3"),
        ("mtan", "encoder.stages.3"),
        ("densemtl", "encoder.stages.3"),
        ("crossstitch", "encoders.0"),
        ("mtan", "encoder"),
    ],
)
def test_gradients_at_a_representation_that_is_not_there_are_one_sentence(name: str, features: str) -> None:
    model = ARCHITECTURES[name](OUTPUTS, width=16)
    method = Aggregated(model, MGDA(), outer=partial(SGD, lr=0.1), shared="representation", features=features)
    with pytest.raises(ValueError, match=r"before the output of `features`|should be called by the closure") as caught:
        method.step(lambda model, image: {task: out.square().mean() for task, out in model(image).items()}, IMAGE)
    assert "\n" not in str(caught.value)


def test_gradients_at_the_representation_of_shared_encoders_are_taken() -> None:
    model = HPS(OUTPUTS, width=8, head="light")
    method = Aggregated(model, MGDA(), outer=partial(SGD, lr=0.1), shared="representation", features="trunk")
    before = [p.clone() for p in model.parameters()]
    method.step(lambda model, image: {task: out.square().mean() for task, out in model(image).items()}, IMAGE)
    assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_start_with_other_tasks_or_another_encoder_is_one_sentence() -> None:
    single = single_tasks({"seg": 13, "depth": 1})
    with pytest.raises(
        ValueError, match=r"should have the tasks seg, depth, normals. Found seg, depth, without normals."
    ):
        started(CrossStitch, single)
    with pytest.raises(ValueError, match=r"The run `start` should have the encoder and the head of this model. Found"):
        started(NDDR, single_tasks(encoder=mobilenet_config()))


@pytest.mark.parametrize("name", DenseWorkload.architectures)
def test_options_of_the_base_class_are_options_by_name(name: str) -> None:
    if not issubclass(MODELS.load(name), DenseNetwork):
        return
    known = DenseWorkload.architectures
    assert (
        str(Architecture.parse(f"{name}:encoder=resnet18:norm=batch", known)) == f"{name}:encoder=resnet18:norm=batch"
    )
    with pytest.raises(ValueError, match="There is no option of model"):
        Architecture.parse(f"{name}:depth=3", known)


def test_the_head_of_densemtl_is_its_own() -> None:
    with pytest.raises(ValueError, match=r"Parameter `head` should not be given for DenseMTL. Found `head = 'aspp'`."):
        Architecture.parse("densemtl:head=aspp", ["densemtl"])
