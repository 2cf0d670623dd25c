"""LeNet, for all tasks and one per task."""

from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy

from torchsims.models import LeNet, SingleTask


@pytest.mark.parametrize(("single", "others"), [(False, "heads.1"), (True, "networks.1")])
def test_a_task_trains_what_is_shared_and_what_is_its_own(single: bool, others: str) -> None:
    torch.manual_seed(0)
    make, outputs = partial(LeNet, side=36), {"left": 10, "right": 10}
    model = SingleTask(outputs, make) if single else make(outputs)
    cross_entropy(model(torch.rand(8, 1, 36, 36))["left"], torch.arange(8)).backward()  # type: ignore[no-untyped-call]
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved == {name for name, _ in model.named_parameters() if not name.startswith(others)}


@pytest.mark.parametrize("side", [16, 17, 28, 36])
def test_an_image_may_have_any_side_from_16(side: int) -> None:
    assert LeNet({"left": 3}, side, channels=2)(torch.rand(2, 1, side, side))["left"].shape == (2, 3)
    with pytest.raises(ValueError, match=r"Parameter `side` should be at least 16. Found `side = 15`"):
        LeNet({"left": 3}, 15)
