"""Every metric against scikit-learn or numpy, and however the pixels are split into batches and ranks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.metrics import (  # type: ignore[import-untyped]
    accuracy_score,
    f1_score,
    jaccard_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)
from torch import Tensor

from helpers.ranks import run_ranks
from torchsims import metrics
from torchsims.metrics import (
    AUC,
    Accuracy,
    Classification,
    Depth,
    Edges,
    Normals,
    Regression,
    Saliency,
    Segmentation,
    TaskMetric,
)

IMAGES, CLASSES, SIZE = 9, 5, (12, 10)
Twin = Callable[[Tensor, Tensor], dict[str, float]]
Array = npt.NDArray[np.float64]


def scores(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    target = torch.randint(-2, CLASSES - 1, (IMAGES, *SIZE), generator=generator)  # the last class never occurs
    right = torch.nn.functional.one_hot(target.clamp(min=0), CLASSES).movedim(-1, 1)
    return right + torch.randn(IMAGES, CLASSES, *SIZE, generator=generator), target


def depths(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    target = (torch.rand(IMAGES, 1, *SIZE, generator=generator) * 10 - 2).clamp(min=0)
    return target + torch.randn(IMAGES, 1, *SIZE, generator=generator), target


def directions(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    target = torch.nn.functional.normalize(torch.randn(IMAGES, 3, *SIZE, generator=generator), dim=1)
    prediction = 3 * target + torch.randn(IMAGES, 3, *SIZE, generator=generator)
    prediction[0, :, 0, 0] = 0  # points nowhere
    prediction[0, :, 0, 1] = target[0, :, 0, 1]  # exact
    target[:, :, torch.rand(SIZE, generator=generator) < 0.2] = 0
    target[1] = 0  # an image without labels
    return prediction, target


def masks(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    target = (torch.rand(IMAGES, 1, *SIZE, generator=generator) < 0.2).float()
    prediction = 3 * target - 2 + torch.randn(IMAGES, 1, *SIZE, generator=generator)
    target[torch.rand(target.shape, generator=generator) < 0.1] = -1
    return prediction, target


def salient(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    prediction, target = masks(generator)
    target[2], prediction[2] = 0, -9  # nothing salient, and nothing found
    target[3] = 0  # nothing salient, but something found
    return prediction, target


def row_logits(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Logits of rows, some of them equal; a row in ten has no label."""
    target = torch.randint(-1, 9, (IMAGES * 40,), generator=generator).clamp(max=1)
    prediction = target + 2 * torch.randn(target.shape, generator=generator)
    return ((4 * prediction).round() / 4).view(IMAGES, 40), target.view(IMAGES, 40)


def row_scores(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    target = torch.randint(-1, CLASSES, (IMAGES, 40), generator=generator)
    right = torch.nn.functional.one_hot(target.clamp(min=0), CLASSES)
    return right + torch.randn(IMAGES, 40, CLASSES, generator=generator), target


def row_numbers(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    target = 3 + torch.randn(IMAGES, 40, generator=generator)
    prediction = target + torch.randn(IMAGES, 40, generator=generator)
    target[torch.rand(target.shape, generator=generator) < 0.3] = torch.nan
    return prediction, target


def segmentation_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    known = (target >= 0).numpy()
    labels, found = target.numpy()[known], prediction.argmax(1).numpy()[known]
    return {
        "miou": float(jaccard_score(labels, found, average="macro")),
        "pixel_accuracy": float(accuracy_score(labels, found)),
    }


def depth_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    known = target > 0
    error = np.abs(prediction[known].double().numpy() - target[known].double().numpy())
    return {"abs_err": float(error.mean()), "rel_err": float((error / target[known].double().numpy()).mean())}


def angles(prediction: Tensor, target: Tensor) -> Array:
    a, b = (t.movedim(1, -1)[target.norm(dim=1) > 0].double().numpy() for t in (prediction, target))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = (a * b).sum(1) / np.where(lengths > 0, lengths, 1)
    degrees: Array = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    return degrees


def normals_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    angle = angles(prediction, target)
    shares = {f"within_{limit:g}": float((angle < limit).mean()) for limit in (11.25, 22.5, 30)}
    return {"mean": float(angle.mean()), "median": float(np.median(angle)), **shares}


def edges_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    known = target >= 0
    labels, probability = target[known].numpy(), prediction[known].sigmoid().numpy()
    return {"ods_f": max(float(f1_score(labels, probability >= t / 100)) for t in range(1, 100))}


def saliency_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    found = []
    for threshold in np.linspace(0.2, 0.9, 15):
        indices = []
        for logits, labels in zip(prediction, target, strict=True):
            known = labels >= 0
            called, right = (logits[known].sigmoid() > threshold).numpy(), (labels[known] > 0).numpy()
            indices.append(float(jaccard_score(right, called, zero_division=1.0)))
        found.append(float(np.mean(indices)))
    return {"miou": max(found)}


def rows_of(prediction: Tensor, target: Tensor) -> tuple[Array, Array]:
    known = (target >= 0) & ~target.isnan()
    return prediction[known].double().numpy(), target[known].numpy()


def accuracy_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    scores, labels = rows_of(prediction, target)
    found = scores.argmax(1) if scores.ndim == 2 else scores > 0
    return {"accuracy": float(accuracy_score(labels, found))}


def auc_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    scores, labels = rows_of(prediction, target)
    if scores.ndim == 1:
        return {"auc": float(roc_auc_score(labels, scores))}
    return {"auc": float(np.mean([roc_auc_score(labels == k, scores[:, k]) for k in np.unique(labels)]))}


def classification_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    return auc_twin(prediction, target) | accuracy_twin(prediction, target)


def regression_twin(prediction: Tensor, target: Tensor) -> dict[str, float]:
    known = ~target.isnan()
    found, right = prediction[known].numpy(), target[known].numpy()
    return {"r2": float(r2_score(right, found)), "mae": 8 * float(mean_absolute_error(right, found))}


class ByImage(TaskMetric):
    """A metric of rows on rows that come in groups, as pixels come in images."""

    def __init__(self, metric: TaskMetric) -> None:
        super().__init__()
        self.metric = metric

    @property
    def higher_is_better(self) -> Mapping[str, bool]:  # type: ignore[override]  # those of its metric
        return self.metric.higher_is_better

    def update(self, prediction: Tensor, target: Tensor) -> None:
        self.metric.update(prediction.flatten(0, 1), target.flatten())

    def compute(self) -> dict[str, Tensor]:
        return self.metric.compute()

    def reset(self) -> None:
        super().reset()
        self.metric.reset()


CASES: dict[str, tuple[Callable[[], TaskMetric], Callable[[torch.Generator], tuple[Tensor, Tensor]], Twin]] = {
    "Segmentation": (lambda: Segmentation(CLASSES), scores, segmentation_twin),
    "Depth": (Depth, depths, depth_twin),
    "Normals": (Normals, directions, normals_twin),
    "Edges": (Edges, masks, edges_twin),
    "Saliency": (Saliency, salient, saliency_twin),
    "AUC": (lambda: ByImage(AUC()), row_logits, auc_twin),
    "AUC of classes": (lambda: ByImage(AUC(CLASSES)), row_scores, auc_twin),
    "Accuracy": (lambda: ByImage(Accuracy()), row_logits, accuracy_twin),
    "Classification": (lambda: ByImage(Classification(CLASSES)), row_scores, classification_twin),
    "Regression": (lambda: ByImage(Regression(sd=8)), row_numbers, regression_twin),
}
ROWS = ("AUC", "AUC of classes", "Accuracy", "Classification", "Regression")


def make_case(name: str, seed: int = 0) -> tuple[TaskMetric, Tensor, Tensor]:
    make, sample, _ = CASES[name]
    return make(), *sample(torch.Generator().manual_seed(seed))


def values(metric: TaskMetric) -> dict[str, float]:
    return {name: value.item() for name, value in metric.compute().items()}


def whole(name: str) -> dict[str, float]:
    metric, prediction, target = make_case(name)
    metric.update(prediction, target)
    return values(metric)


def on_rank(rank: int, name: str, parts: list[list[int]]) -> dict[str, float]:
    """Return the metrics of all ranks, from this rank's uneven part in uneven batches."""
    metric, prediction, target = make_case(name)
    for batch in parts[rank::2]:
        metric.update(prediction[batch], target[batch])
    return values(metric)


PARTS = [[0], [3, 4], [1, 2, 8, 7], [5, 6]]  # batches, of the first rank and of the second in turn


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, list[Any]]:
    return run_ranks({name: (on_rank, (name, PARTS)) for name in CASES})


def test_every_metric_has_a_case() -> None:
    found = {name for name in metrics.__all__ if isinstance(getattr(metrics, name), type)}
    assert found - {"TaskMetric"} == set(CASES) - {"AUC of classes"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_a_metric_equals_its_twin(name: str, seed: int) -> None:
    metric, prediction, target = make_case(name, seed)
    metric.update(prediction, target)
    expected = CASES[name][2](prediction, target)
    found = values(metric)
    assert list(found) == list(metric.higher_is_better) == list(expected)
    if "median" in found:
        assert found.pop("median") == pytest.approx(expected.pop("median"), abs=0.0005 + 1e-9)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_batches_of_any_size_give_what_the_whole_gives(name: str) -> None:
    metric, prediction, target = make_case(name)
    for batch in PARTS:
        metric.update(prediction[batch], target[batch])
    assert values(metric) == pytest.approx(whole(name), rel=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_find_what_one_finds(two_ranks: dict[str, list[Any]], name: str) -> None:
    first, second = two_ranks[name]
    assert not isinstance(first, str), first
    assert first == second
    assert first == pytest.approx(whole(name), rel=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_reset_forgets(name: str) -> None:
    metric, prediction, target = make_case(name)
    metric.update(prediction.flip(0), target)
    metric.reset()
    metric.update(prediction, target)
    assert values(metric) == whole(name)


@pytest.mark.parametrize("name", [name for name in CASES if "AUC" not in name and name != "Classification"])
def test_the_state_does_not_grow(name: str) -> None:
    """That of an AUC does: no summary of fixed size has the exact value."""
    metric, prediction, target = make_case(name)
    sizes = []
    for _ in range(2):
        metric.update(prediction, target)
        sizes.append(sum(state.numel() for state in metric.metric_state.values() if isinstance(state, Tensor)))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", ["Segmentation", "Depth", "Normals", "Edges", *ROWS])
def test_without_a_label_a_metric_is_nan(name: str) -> None:
    metric, prediction, target = make_case(name)
    if name == "Regression":
        target = torch.full_like(target, torch.nan)
    metric.update(prediction, target.new_zeros(target.shape) if name in ("Depth", "Normals") else target.clamp(max=-1))
    assert all(np.isnan(value) for value in values(metric).values())


def test_a_class_that_occurs_nowhere_does_not_count() -> None:
    metric = Segmentation(3)
    metric.update(torch.tensor([[[[2.0, 0.0]], [[0.0, 2.0]], [[-1.0, -1.0]]]]), torch.tensor([[[0, 1]]]))
    assert values(metric) == {"miou": 1.0, "pixel_accuracy": 1.0}


def test_a_probability_at_the_threshold_is_an_edge() -> None:
    metric = Edges()
    metric.update(torch.tensor([0.0, 0.0, -0.02, -0.02]), torch.tensor([1.0, 1.0, 0.0, 0.0]))  # 0.5 and 0.495
    assert values(metric) == {"ods_f": 1.0}


@pytest.mark.parametrize("name", ["Depth", "Normals"])
def test_a_diverged_prediction_shows(name: str) -> None:
    metric, prediction, target = make_case(name)
    prediction[target > 0] = torch.nan
    metric.update(prediction, target)
    assert np.isnan(values(metric)["abs_err" if name == "Depth" else "mean"])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 101])
def test_the_median_of_few_angles(count: int) -> None:
    angle = torch.rand(count, generator=torch.Generator().manual_seed(count)).mul(torch.pi).double()
    prediction = torch.stack([angle.sin(), torch.zeros_like(angle), angle.cos()]).view(1, 3, 1, count)
    metric = Normals()
    metric.update(prediction, torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1).expand_as(prediction))
    expected = float(np.median(np.degrees(angle.numpy())))
    assert values(metric)["median"] == pytest.approx(expected, abs=0.0005 + 1e-9)


def test_small_angles_keep_their_digits() -> None:
    angle = torch.tensor(1e-3).deg2rad()
    prediction = torch.stack([angle.sin(), torch.zeros(()), angle.cos()]).view(1, 3, 1, 1)
    metric = Normals()
    metric.update(prediction, torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1))
    assert values(metric)["mean"] == pytest.approx(1e-3, rel=1e-5)


@pytest.mark.parametrize("name", ["Depth", "Normals", "Edges", "Saliency"])
def test_shapes_that_would_broadcast_are_refused(name: str) -> None:
    metric, prediction, target = make_case(name)
    with pytest.raises(ValueError, match="should have the same shape"):
        metric.update(prediction[:1], target)


def test_too_few_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Parameter `classes` should be at least 2. Found `classes = 1`."):
        Segmentation(1)


def test_one_class_alone_has_no_area() -> None:
    metric = AUC()
    metric.update(torch.randn(5), torch.ones(5, dtype=torch.int64))
    assert np.isnan(values(metric)["auc"])


def test_a_class_that_occurs_nowhere_has_no_area() -> None:
    metric = AUC(3)
    metric.update(torch.eye(3)[[0, 1, 0]], torch.tensor([0, 1, 0]))
    assert values(metric) == {"auc": 1.0}


def test_a_score_that_is_nan_shows() -> None:
    metric = AUC()
    metric.update(torch.tensor([torch.nan, 1.0, 2.0]), torch.tensor([0, 1, 0]))
    assert np.isnan(values(metric)["auc"])


def test_equal_numbers_have_no_r2() -> None:
    metric = Regression()
    metric.update(torch.tensor([0.1, 0.2, 0.3]), torch.full((3,), 0.1))
    assert np.isnan(values(metric)["r2"])


@pytest.mark.parametrize("make", [AUC, Accuracy, Regression])
def test_rows_that_would_broadcast_are_refused(make: Callable[[], TaskMetric]) -> None:
    with pytest.raises(ValueError, match="should have"):
        make().update(torch.zeros(1, 3), torch.zeros(3))


def test_a_unit_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Parameter `sd` should be positive. Found `sd = 0`."):
        Regression(sd=0)
