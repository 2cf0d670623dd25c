"""Laws of the loss normalizers."""

import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.histories import assert_same_state, history, state
from helpers.twins import STEPS_PER_EPOCH
from torchsims import normalizers
from torchsims.normalizers import EMA, EpochWise, Fixed, Normalizer

CASES: dict[str, Callable[[], Normalizer]] = {"EMA": lambda: EMA(0.7), "EpochWise": EpochWise, "Fixed": Fixed}
every_case = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())


def train(normalizer: Normalizer, losses: Tensor, labelled: Tensor | None = None) -> Tensor:
    divisors = []
    for t in range(len(losses)):
        divisors.append(normalizer(losses[t], None if labelled is None else labelled[t]))
        if t % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1:
            normalizer.end_epoch()
    return torch.stack(divisors)


def twin(name: str, losses: list[float | None]) -> list[float]:
    """Return the divisors of one task, None where it has no label, in plain Python."""
    divisors = []
    for t in range(len(losses)):
        epochs = [losses[s : s + STEPS_PER_EPOCH] for s in range(0, t - t % STEPS_PER_EPOCH, STEPS_PER_EPOCH)]
        seen = [[loss for loss in epoch if loss is not None] for epoch in epochs]
        if name == "Fixed":
            means = [sum(epoch) / len(epoch) for epoch in seen[1:] if epoch][:1]
        elif name == "EpochWise":
            means = [sum(epoch) / len(epoch) for epoch in seen if epoch][-1:]
        else:
            means = []
            for loss in losses[: t + 1]:
                if loss is not None:
                    means = [0.7 * means[0] + 0.3 * loss] if means else [loss]
        divisors.append(means[0] if means else 1.0)
    return divisors


def test_every_normalizer_has_a_case() -> None:
    assert CASES.keys() == set(normalizers.__all__) - {"Normalizer"}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
def test_divisors_are_their_formula(name: str, share: float) -> None:
    losses = history(2, steps=12)
    labelled = torch.rand(losses.shape, generator=torch.Generator().manual_seed(1)) < share
    found = train(CASES[name](), losses.where(labelled, torch.nan), labelled)
    for i, j in [(i, j) for i in range(2) for j in range(3)]:
        steps = [loss.item() if known else None for loss, known in zip(losses[:, i, j], labelled[:, i, j], strict=True)]
        torch.testing.assert_close(found[:, i, j], torch.tensor(twin(name, steps), dtype=torch.float64))


@every_case
def test_divided_losses_have_no_unit(make: Callable[[], Normalizer]) -> None:
    losses = history(steps=8).float()
    powers_of_two = torch.tensor([2.0**-13, 2.0**20, 8.0])
    expected = losses / train(make(), losses)
    found = powers_of_two * losses / train(make(), powers_of_two * losses)
    assert torch.equal(found[4:], expected[4:])


@every_case
def test_divisors_are_positive_and_detached(make: Callable[[], Normalizer]) -> None:
    losses = torch.zeros(6, 3, requires_grad=True)  # of which nothing above zero can be learnt
    divisors = train(make(), losses)
    assert torch.equal(divisors, torch.ones(6, 3))
    assert not divisors.requires_grad


@every_case
def test_unlabelled_entries_are_ignored(make: Callable[[], Normalizer]) -> None:
    labelled = torch.tensor([True, False, True])
    one, two = make(), make()
    for losses in (history(), history(seed=1)):
        known = labelled.expand_as(losses)
        assert torch.equal(
            train(one, losses.where(labelled, torch.nan), known), train(two, losses.where(labelled, 1e6), known)
        )
    assert_same_state(state(one), state(two))


@every_case
def test_statistics_follow_the_losses(make: Callable[[], Normalizer]) -> None:
    normalizer = make()
    train(normalizer, history())
    assert train(normalizer, history().float()).dtype == torch.float32
    assert train(normalizer, history().to("meta")).device.type == "meta"


@every_case
def test_resumed_is_uninterrupted(make: Callable[[], Normalizer]) -> None:
    losses = history(steps=12)
    straight, resumed = make(), make()
    train(straight, losses[:5])
    train(resumed, history(5))  # of another shape, to be forgotten
    file = io.BytesIO()
    torch.save(straight.state_dict(), file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(train(resumed, losses[5:]), train(straight, losses[5:]))
    assert_same_state(state(resumed), state(straight))


@every_case
def test_evaluation_foretells_training_and_changes_nothing(make: Callable[[], Normalizer]) -> None:
    normalizer = make()
    train(normalizer, history())
    before = state(normalizer)
    foretold = normalizer.eval()(history()[0])
    assert_same_state(state(normalizer), before)
    assert torch.equal(copy.deepcopy(normalizer).train()(history()[0]), foretold)


@every_case
@pytest.mark.parametrize("found", [torch.bfloat16, torch.float32, torch.float64])
def test_precision_is_kept_and_single_at_least(make: Callable[[], Normalizer], found: torch.dtype) -> None:
    assert train(make(), history().to(found)).dtype == torch.promote_types(found, torch.float32)


@every_case
def test_step_never_waits_for_the_device(make: Callable[[], Normalizer]) -> None:
    losses = torch.ones(6, 4, 3, device="meta")  # has shapes and no values: looking at a value raises
    assert train(make().to("meta"), losses, losses > 0).shape == (6, 4, 3)


def test_bad_settings_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"Parameter `epoch` should be at least 1. Found `epoch = 0`."):
        Fixed(0)
    with pytest.raises(ValueError, match=r"Parameter `decay` should be in \[0, 1\). Found `decay = 1.0`."):
        EMA(1.0)
