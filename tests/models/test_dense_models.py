"""Networks that predict every image by itself, and losses over labelled pixels only."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, cross_entropy, l1_loss
from torch.optim import Adam

from torchsims import SIMS, Scalarized, TaskLosses
from torchsims.data.scenes import CHANNELS, Scenes
from torchsims.losses import read
from torchsims.models import (
    HPS,
    SingleTask,
    dense_losses,
    depth_loss,
    edges_loss,
    normals_loss,
    saliency_loss,
    segmentation_loss,
)
from torchsims.scalarizations import EW

TASKS = tuple(CHANNELS)
single_task = partial(SingleTask, make=partial(HPS, width=8))
Batch = dict[str, Tensor]


def make_batch(size: int = 6, resolution: tuple[int, int] = (32, 32)) -> Batch:
    return Scenes("train", size=size, resolution=resolution, tasks=TASKS).batch(range(size))


def make_predictions(batch: Batch, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (len(batch["image"]), -1, *batch["image"].shape[-2:])
    size = [torch.Size((shape[0], channels, *shape[2:])) for channels in CHANNELS.values()]
    return {
        task: torch.randn(s, generator=generator, dtype=dtype).requires_grad_()
        for task, s in zip(TASKS, size, strict=True)
    }


def closure(model: nn.Module, batch: Batch) -> TaskLosses:
    return dense_losses(model(batch["image"]), batch)


def means(model: nn.Module, batch: Batch) -> dict[str, float]:
    with torch.no_grad():
        return {task: loss.item() for task, loss in closure(model, batch).mean().items()}


def test_losses_are_the_means_over_labelled_pixels() -> None:
    batch = make_batch()
    batch["edges"][0, 0, :3] = -1
    batch["seg"][1, :2] = -7
    predictions = make_predictions(batch)
    found = dense_losses(predictions, batch)
    seen, known, edged = batch["depth"] > 0, batch["seg"] >= 0, batch["edges"] >= 0
    cosines = cosine_similarity(predictions["normals"], batch["normals"].double(), dim=1)
    beta = torch.where(batch["edges"][edged] > 0, 0.95, 0.05).double()
    expected = {
        "seg": cross_entropy(predictions["seg"].movedim(1, -1)[known], batch["seg"][known]),
        "depth": l1_loss(predictions["depth"][seen], batch["depth"][seen].double()),
        "normals": 1 - cosines[seen[:, 0]].mean(),
        "edges": binary_cross_entropy_with_logits(
            predictions["edges"][edged], batch["edges"][edged].double(), weight=beta
        ),
    }
    for task, mean in found.mean().items():
        torch.testing.assert_close(mean, expected[task], rtol=1e-6, atol=0)
    masks = {"seg": known, "depth": seen, "normals": seen, "edges": edged}
    reading = read(found)
    assert reading.count.tolist() == [masks[task].sum() for task in reading.names]


def test_losses_by_hand() -> None:
    total, count = segmentation_loss(torch.tensor([[[[math.log(3.0)]], [[0.0]]]]), torch.tensor([[[1]]]))
    assert total.item() == pytest.approx(math.log(4.0))
    assert count.item() == 1
    total, count = depth_loss(torch.tensor([[[[1.0, 5.0]]]]), torch.tensor([[[[2.5, 0.0]]]]))
    assert total.item() == 1.5
    assert count.item() == 1
    total, count = normals_loss(
        torch.tensor([0.0, 3.0, 4.0]).view(1, 3, 1, 1), torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1)
    )
    assert total.item() == pytest.approx(0.2)
    assert count.item() == 1
    total, count = edges_loss(torch.tensor([[[[math.log(3.0), 0.0]]]]), torch.tensor([[[[1.0, 0.0]]]]))
    assert total.item() == pytest.approx(0.95 * math.log(4 / 3) + 0.05 * math.log(2))
    assert count.item() == 2


def test_salient_and_other_pixels_of_an_image_weigh_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 1, 8, 8, generator=generator, dtype=torch.float64)
    target = (torch.rand(3, 1, 8, 8, generator=generator) < 0.2).double()
    target[0, 0, :2] = -1
    target[2] = 0  # nothing salient: nothing to balance, and still a loss
    expected = torch.zeros((), dtype=torch.float64)
    for image, label in zip(logits, target, strict=True):
        known = label >= 0
        share = 0.5 if not (label > 0).any() else (label == 0).sum() / known.sum()
        weight = torch.where(label > 0, share, 1 - share)[known]
        expected += binary_cross_entropy_with_logits(image[known], label[known], weight=weight, reduction="sum")
    reading = read(dense_losses({"saliency": logits}, {"saliency": target}))
    assert reading.count.item() == (target >= 0).sum()
    torch.testing.assert_close(reading.total[0], expected, rtol=1e-6, atol=0)
    parts = [saliency_loss(logits[i : i + 1], target[i : i + 1])[0] for i in range(3)]
    torch.testing.assert_close(torch.stack(parts).sum(), expected, rtol=1e-6, atol=0)


def test_parts_are_classes_and_an_image_without_a_person_counts_nothing() -> None:
    scores = torch.randn(2, 7, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.full((2, 4, 4), -1)
    labels[0] = 3
    reading = read(dense_losses({"parts": scores}, {"parts": labels}))
    assert reading.count.item() == 16
    torch.testing.assert_close(reading.total[0] / 16, cross_entropy(scores[:1], labels[:1]))


def test_splitting_a_batch_changes_nothing() -> None:
    batch = make_batch()
    batch["depth"][3] = 0  # an image without a label of one task
    predictions = make_predictions(batch)
    whole = dense_losses(predictions, batch).mean()
    parts = [
        dense_losses({k: v[a:b] for k, v in predictions.items()}, {k: v[a:b] for k, v in batch.items()})
        for a, b in ((0, 1), (1, 3), (3, 4), (4, 6))
    ]
    readings = [read(part) for part in parts]
    total, count = (torch.stack([getattr(part, name) for part in readings]).sum(0) for name in ("total", "count"))
    expected = torch.stack([whole[task] for task in readings[0].names])
    torch.testing.assert_close(total / count, expected, rtol=1e-12, atol=0)


def test_gradients_stay_on_labelled_pixels() -> None:
    batch = make_batch()
    predictions = make_predictions(batch)
    torch.stack(list(dense_losses(predictions, batch).mean().values())).sum().backward()  # type: ignore[no-untyped-call]
    ignored = {"seg": batch["seg"] < 0, "depth": batch["depth"][:, 0] == 0, "normals": batch["depth"][:, 0] == 0}
    for task, mask in ignored.items():
        gradient = predictions[task].grad
        assert gradient is not None
        assert gradient.isfinite().all()
        assert mask.any()
        assert (gradient.movedim(1, -1)[mask] == 0).all()


def test_half_precision_does_not_overflow() -> None:
    batch = make_batch(size=8, resolution=(64, 64))
    predictions = {task: 30 * value.detach().half() for task, value in make_predictions(batch).items()}
    assert all(loss.isfinite() for loss in dense_losses(predictions, batch).mean().values())


def test_a_normal_without_length_has_a_finite_gradient() -> None:
    prediction = torch.zeros(1, 3, 1, 1, requires_grad=True)
    total, _ = normals_loss(prediction, torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1))
    total.backward()  # type: ignore[no-untyped-call]
    assert total.item() == 1
    assert prediction.grad is not None
    assert prediction.grad.isfinite().all()


def test_an_unknown_task_and_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one of seg, depth, normals, edges, parts, saliency. Found 'flow'."):
        dense_losses({"flow": torch.zeros(1)}, {})
    with pytest.raises(ValueError, match="target of task `depth` should have the same shape"):
        dense_losses({"depth": torch.zeros(2, 1, 4, 4)}, {"depth": torch.zeros(2, 4, 4)})


@pytest.mark.parametrize("make", [HPS, single_task])
def test_an_image_is_predicted_alike_in_any_batch(make: Callable[..., nn.Module]) -> None:
    torch.manual_seed(0)
    model = make(CHANNELS).double()
    images = make_batch()["image"].double()
    alone, together = model(images[2:3]), model(images)
    assert list(together) == list(CHANNELS)
    for task in TASKS:
        torch.testing.assert_close(alone[task], together[task][2:3], rtol=0, atol=1e-12)


@pytest.mark.parametrize("resolution", [(32, 32), (33, 47), (16, 64)])
def test_any_resolution_comes_back(resolution: tuple[int, int]) -> None:
    out = HPS(CHANNELS, width=8)(torch.rand(2, 3, *resolution))
    assert {task: tuple(value.shape) for task, value in out.items()} == {
        task: (2, channels, *resolution) for task, channels in CHANNELS.items()
    }


def test_heads_are_apart_and_networks_share_nothing() -> None:
    batch = make_batch(size=2)
    torch.manual_seed(0)
    for model, shared in ((HPS(CHANNELS, width=8), True), (single_task(CHANNELS), False)):
        closure(model, batch).mean()["depth"].backward()  # type: ignore[no-untyped-call]
        touched = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
        if shared:
            assert {name.split(".")[1] for name in touched if name.startswith("heads")} == {"1"}
            assert any(name.startswith("trunk") for name in touched)
        else:
            assert {name.split(".")[1] for name in touched} == {"1"}


def test_there_are_no_batch_statistics() -> None:
    assert not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in HPS(CHANNELS).modules())
    assert list(HPS(CHANNELS).buffers()) == []


def test_a_few_steps_of_sims_reduce_every_loss() -> None:
    torch.manual_seed(0)
    batch = make_batch(size=8)
    model = HPS(CHANNELS)
    before = means(model, batch)
    method = SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))
    for _ in range(12):
        method.step(closure, batch)
    after = means(model, batch)
    assert all(after[task] < 0.95 * before[task] for task in TASKS), (before, after)


def test_single_tasks_learn_each_on_its_own() -> None:
    torch.manual_seed(0)
    batch = make_batch(size=8)
    model = single_task(CHANNELS)
    before = means(model, batch)
    method = Scalarized(model, EW(), outer=partial(Adam, lr=3e-3))
    for _ in range(12):
        method.step(closure, batch)
    after = means(model, batch)
    assert all(after[task] < before[task] for task in TASKS), (before, after)


def test_a_batch_may_lack_the_labels_of_a_task() -> None:
    torch.manual_seed(0)
    batch = make_batch(size=4)
    empty = {**batch, "normals": torch.zeros_like(batch["normals"])}
    missing = {name: value for name, value in batch.items() if name != "normals"}
    model = HPS(CHANNELS, width=8)
    method = SIMS(model, outer=partial(Adam, lr=1e-3), inner=partial(Adam, lr=2e-3))
    for part in (empty, missing):
        report = method.step(closure, part)
        assert float(report.weights["normals"]) == 0
        assert math.isnan(float(report.losses["normals"]))
        assert all(float(report.weights[task]) > 0 for task in ("seg", "depth", "edges"))
    assert all(value > 0 for value in method.step(closure, batch).weights.values())


def test_the_head_of_a_missing_task_stays_in_the_graph() -> None:
    batch = make_batch(size=2)
    model = HPS(CHANNELS, width=8)
    losses = dense_losses(model(batch["image"]), {})
    read(losses).total.sum().backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(
    ("outputs", "width", "message"),
    [
        ({}, 16, "Parameter `outputs` should name at least one task. Found none."),
        ({"seg": 0}, 16, "The outputs of task `seg` should be positive. Found 0."),
        ({"seg": 8}, 12, "Parameter `width` should be a multiple of 8. Found `width = 12`."),
    ],
)
def test_bad_options_are_refused(single: bool, outputs: dict[str, int], width: int, message: str) -> None:
    make = partial(HPS, width=width)
    with pytest.raises(ValueError, match=message):
        SingleTask(outputs, make) if single else make(outputs)
