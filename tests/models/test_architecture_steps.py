"""Every dense architecture takes exact steps with every loss-level method and SIMS: whole, in parts, on two ranks."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.methods import SCALARIZED, STEPPERS
from helpers.ranks import Job, run_ranks
from helpers.small_encoders import resnet_config
from torchsims import TaskLosses
from torchsims.models import HPS, MTAN, NDDR, CrossStitch, DenseMTL

ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "hps": partial(HPS, head="light"),
    "crossstitch": CrossStitch,
    "nddr": NDDR,
    "mtan": MTAN,
    "densemtl": DenseMTL,
}
METHODS = ["SIMS", "SIMS joint", "FOOPS", *SCALARIZED]
OUTPUTS = {"a": 2, "b": 1, "c": 3}
IMAGES = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
PARTS = (IMAGES[:2], IMAGES[2:])


def make(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    model = ARCHITECTURES[name](OUTPUTS, **{"width": 8, **options})
    with torch.no_grad():  # away from gates that are closed at the start
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model.double()


def task_losses(model: nn.Module, images: Tensor) -> TaskLosses:
    """Return the squared distances to the mean colour, over pixels, and their numbers."""
    found = {task: (out - images.mean(dim=1, keepdim=True)).square() for task, out in model(images).items()}
    return TaskLosses(total={t: v.sum() for t, v in found.items()}, count={t: v.numel() for t, v in found.items()})


def step(model: nn.Module, method: str, *batches: Tensor) -> dict[str, Tensor]:
    """Return the parameters after one step."""
    STEPPERS[method](model, tuple(OUTPUTS)).step(task_losses, *batches)
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_method_trains_every_part_of_it(name: str) -> None:
    start = make(name)
    before = dict(start.named_parameters())
    for method in METHODS:
        after = step(copy.deepcopy(start), method, IMAGES[:2])
        still = [each for each, value in after.items() if torch.equal(value, before[each])]
        assert len(still) < len(after)
        assert not still or method == "Chebyshev", (method, still)  # which trains the worst task alone
        assert all(value.isfinite().all() for value in after.values())


def options_of(norm: str) -> dict[str, Any]:
    return {} if norm == "group" else {"encoder": resnet_config(), "norm": norm, "width": 16}


@pytest.mark.parametrize("norm", ["group", "frozen"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_micro_batches_are_one_batch(name: str, norm: str) -> None:
    start = make(name, **options_of(norm)).eval()  # without dropout
    whole, parts = (step(copy.deepcopy(start), "SIMS", *batches) for batches in ((IMAGES,), PARTS))
    for each, value in whole.items():
        torch.testing.assert_close(parts[each], value, rtol=1e-9, atol=1e-12)


def step_on_rank(rank: int, name: str) -> dict[str, Tensor]:
    return step(make(name), "SIMS", PARTS[rank])


def test_two_ranks_are_one() -> None:
    jobs: dict[str, Job] = {name: (step_on_rank, (name,)) for name in ARCHITECTURES}
    for name, results in run_ranks(jobs).items():
        whole = step(make(name), "SIMS", IMAGES)
        for found in results:
            assert not isinstance(found, str), found
            for each, value in whole.items():
                torch.testing.assert_close(found[each], value, rtol=1e-9, atol=1e-12)
