"""A diagnosis measures what autograd computes by hand, however a batch is split, and leaves no trace."""

import random
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from helpers.ranks import Job, run_ranks
from helpers.support import TASKS, Data, flat, make_data, make_net, mean_losses, sgd, task_losses
from torchsims import Diagnosis, TaskLosses, diagnose
from torchsims.diagnosis._geometry import layer_groups

SHARED = ("stem.weight", "stem.bias", "trunk.weight", "trunk.bias")
BATCHES = 3


def batches(share: float = 0.7) -> list[Data]:
    return [make_data(seed=seed, share=share) for seed in range(BATCHES)]


def numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return all numbers by their path."""

    def leaves(path: str, value: Any) -> dict[str, float]:
        if isinstance(value, dict):
            return {k: v for key, entry in value.items() for k, v in leaves(f"{path}/{key}", entry).items()}
        return {path: float(value)} if isinstance(value, int | float) else {}

    return leaves("", diagnosis.to_dict())


def assert_same(one: Diagnosis, other: Diagnosis) -> None:
    a, b = numbers(one), numbers(other)
    assert a.keys() == b.keys()
    np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-9, atol=1e-12)
    assert [f.kind for f in one.findings] == [f.kind for f in other.findings]


def by_hand(model: nn.Module, data: Sequence[Data]) -> list[Tensor]:
    """Return the gradients of every batch by the shared parameters, `task x parameter`."""
    shared = [model.get_parameter(name) for name in SHARED]
    return [
        torch.stack(
            [
                flat(torch.autograd.grad(loss, shared, retain_graph=True))
                for loss in task_losses(model, d).mean().values()
            ]
        )
        for d in data
    ]


def test_the_numbers_are_those_of_autograd() -> None:
    model, data = make_net(), batches()
    found = diagnose(model, task_losses, data)
    rows = by_hand(model, data)
    lengths = torch.stack([r.norm(dim=1) for r in rows])
    losses = torch.stack([torch.stack(list(task_losses(model, d).mean().values())).detach() for d in data])
    units = [r / r.norm(dim=1, keepdim=True) for r in rows]
    sums = [r.sum(0) / r.sum(0).norm() for r in rows]
    expected = {
        "gradient": lengths.mean(0),
        "share": lengths.mean(0) / lengths.mean(0).sum(),
        "log_share": (lengths / losses).mean(0) / (lengths / losses).mean(0).sum(),
        "aligned": torch.stack([u @ s for u, s in zip(units, sums, strict=True)]).mean(0),
        "spread": losses.std(0),
        "smallest": losses.amin(0),
    }
    for name, values in expected.items():
        torch.testing.assert_close(torch.tensor(list(getattr(found, name).values())).double(), values, msg=name)
    cosines = torch.stack([u @ u.T for u in units]).mean(0)
    torch.testing.assert_close(torch.tensor([list(row.values()) for row in found.cosines.values()]).double(), cosines)
    stem = [r[:, : 8 * 5 + 8] for r in rows]
    cosine = torch.stack([torch.cosine_similarity(r[0], r[2], dim=0) for r in stem]).mean()
    assert found.layers["stem"]["a"]["c"] == pytest.approx(cosine.item())
    assert found.shared == sum(model.get_parameter(name).numel() for name in SHARED)
    everything = Data(*(torch.cat([getattr(d, f.name) for d in data]) for f in fields(Data)))
    assert found.loss == pytest.approx({k: v.item() for k, v in task_losses(model, everything).mean().items()})


def test_micro_batches_make_no_difference() -> None:
    parts = [part for d in batches() for part in d.split([9, 7])]
    assert_same(diagnose(make_net(), task_losses, parts, micro_batches=2), diagnose(make_net(), task_losses, batches()))


@pytest.mark.parametrize("factors", [(1e-30, 1.0, 1e30), (2.0**-100, 1.0, 2.0**90)])
def test_the_cosines_do_not_depend_on_units(factors: tuple[float, ...]) -> None:
    data = [make_data(dtype=torch.float32, seed=seed) for seed in range(2)]
    one, two = (diagnose(make_net(torch.float32), mean_losses(scales), data) for scales in ((1, 1, 1), factors))
    for a, b in one.pairs():
        assert one.cosines[a][b] == pytest.approx(two.cosines[a][b], abs=1e-5)
    assert list(one.log_share.values()) == pytest.approx(list(two.log_share.values()), rel=1e-4)


def everything(model: nn.Module, optimizer: Any, own: torch.Generator) -> list[bytes]:
    """Return all that a diagnosis must not change."""
    states = [*model.state_dict().values(), *(p.grad for p in model.parameters() if p.grad is not None)]
    moments = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, Tensor)]
    generators = [torch.get_rng_state(), own.get_state()]
    host = repr((random.getstate(), np.random.get_state(legacy=False))).encode()
    return [t.detach().clone().numpy().tobytes() for t in [*states, *moments, *generators]] + [host]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_it_leaves_no_trace(training: bool, fails: bool) -> None:
    model = make_net(batch_norm=True, dropout=0.4).train(training)
    optimizer = torch.optim.Adam(model.parameters())
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    data, modes = batches(), list[bool]()
    rows: Any = [(d.x, d.y, d.known) for d in data]
    own = torch.Generator().manual_seed(3)
    loader = DataLoader(rows, batch_size=None, shuffle=True, generator=own)

    def closure(module: nn.Module, batch: Any) -> Any:
        modes.append(module.training)
        noise = random.random() + np.random.normal() + torch.rand(()).item()
        losses = task_losses(module, Data(*batch))
        if fails and len(modes) == 2:
            raise KeyError("a closure that fails")
        return losses, noise

    before, buffers = everything(model, optimizer, own), [id(b) for b in model.buffers()]
    if fails:
        with pytest.raises(KeyError, match="a closure that fails"):
            diagnose(model, closure, loader)
    else:
        diagnose(model, closure, loader)
    assert everything(model, optimizer, own) == before
    assert [id(b) for b in model.buffers()] == buffers
    assert set(modes) == {training}
    assert model.training is training


def test_every_batch_has_noise_of_its_own() -> None:
    seen: list[float] = []

    def closure(module: nn.Module, data: Data) -> TaskLosses:
        seen.append(torch.rand(()).item())
        return task_losses(module, data)

    diagnose(make_net(), closure, batches())
    assert len(set(seen)) == BATCHES


def test_it_costs_one_forward_and_a_backward_pass_per_task() -> None:
    model, calls = make_net(), []
    model.trunk.register_forward_hook(lambda *_: calls.append("forward"))
    model.trunk.register_full_backward_hook(lambda *_: calls.append("backward"))
    diagnose(model, task_losses, batches(), max_batches=2)
    assert calls == (["forward"] + ["backward"] * len(TASKS)) * 2


def on_rank(rank: int, wrap: bool, sizes: Sequence[int]) -> Diagnosis:
    model: nn.Module = make_net()
    model = DistributedDataParallel(model) if wrap else model
    mine = [part for d in batches() for part in d.split(sizes)[rank].split([3, len(d.split(sizes)[rank].x) - 3])]

    def closure(module: nn.Module, data: Data) -> Any:
        out = module(data.x)
        error = {task: (out[task] - data.y[:, i]).square() * data.known[:, i] for i, task in enumerate(TASKS)}
        counts = {task: data.known[:, i].sum() for i, task in enumerate(TASKS)}
        pairs = {task: (out[task].sigmoid(), data.y[:, i]) for i, task in enumerate(TASKS)}
        return TaskLosses({task: e.sum() for task, e in error.items()}, counts), pairs

    return diagnose(model, closure, mine, micro_batches=2)


def other_lengths(rank: int) -> None:
    diagnose(make_net(), task_losses, batches()[rank:])


def other_models(rank: int) -> None:
    diagnose(make_net(seed=rank), task_losses, batches())


def fails_on_one(rank: int) -> None:
    def closure(module: nn.Module, data: Data) -> TaskLosses:
        if rank:
            raise KeyError("only here")
        return task_losses(module, data)

    diagnose(make_net(), closure, batches())


JOBS: dict[str, Job] = {
    "plain": (on_rank, (False, (8, 8))),
    "DDP": (on_rank, (True, (11, 5))),
    "lengths": (other_lengths, ()),
    "models": (other_models, ()),
    "fails": (fails_on_one, ()),
}


def test_two_ranks_are_one() -> None:
    found = run_ranks(JOBS, timeout=60)
    expected = on_rank(0, False, (16,))
    assert expected.outputs["a"].outside > 0
    for name in ("plain", "DDP"):
        for each in found[name]:
            assert isinstance(each, Diagnosis), each
            assert_same(each, expected)
    for text in found["lengths"]:
        assert "ValueError: Parameter `batches` should have the same length on every rank." in text
    for text in found["models"]:
        assert "ValueError: The parameters should be the same on every rank." in text
    assert "KeyError: 'only here'" in found["fails"][1]
    assert "rank 1 failed with KeyError" in found["fails"][0]


def nan_loss(model: nn.Module, data: Data) -> dict[str, Tensor]:
    return {"a": model(data.x)["a"].mean() * torch.nan}


def other_model(model: nn.Module, data: Data) -> dict[str, Tensor]:
    return mean_losses()(make_net(), data)


@pytest.mark.parametrize(
    ("closure", "given", "options", "error", "sentence"),
    [
        (task_losses, [], {}, ValueError, "`batches` should hold a batch. Found none."),
        (task_losses, {"x": 1}, {}, TypeError, "should be a collection of batches. Found a dict: if it is one batch"),
        (task_losses, torch.zeros(3), {}, TypeError, "should be a collection of batches. Found a Tensor"),
        (task_losses, batches(), {"max_batches": 0}, ValueError, "Found `max_batches = 0`"),
        (task_losses, batches(), {"micro_batches": 2}, ValueError, "a multiple of 2 micro-batches. Found 3."),
        (task_losses, batches(), {"shared": ["stm"]}, ValueError, "Found `stm`, which names none."),
        (nan_loss, batches(), {}, ValueError, "The loss of task `a` should be finite. Found nan"),
        (other_model, batches(), {}, ValueError, "should compute the losses with the model it is given"),
        ("task_losses", batches(), {}, TypeError, "The closure should be a function `task_losses(model, batch)`"),
        (lambda model, data: 3, batches(), {}, TypeError, "should return a mapping, a sequence or a tensor"),
    ],
)
def test_bad_input_is_one_sentence(
    closure: Callable[..., Any], given: Any, options: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    model = make_net(batch_norm=True)
    before = everything(model, sgd()(model.parameters()), torch.Generator())
    with pytest.raises(error) as raised:
        diagnose(model, closure, given, **options)
    assert sentence in str(raised.value)
    assert everything(model, sgd()(model.parameters()), torch.Generator()) == before


def test_infinite_gradients_name_their_task() -> None:
    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        losses = mean_losses()(model, data)
        return losses | {"b": (losses["b"] * 0).sqrt() + 1}

    with pytest.raises(ValueError, match="Found some that are not: of task `b`"):
        diagnose(make_net(), closure, batches())


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["weight", "bias"], ["(model)"]),
        (["a.weight", "a.bias"], ["a"]),
        (["e.scale", "e.a.w", "e.b.0.x.w", "e.b.1.w"], ["e", "e.a", "e.b.0", "e.b.1"]),
        ([f"l.{i}.w" for i in range(24)], [f"l.{i} to l.{i + 1}" for i in range(0, 24, 2)]),
        ([], []),
    ],
)
def test_layer_groups_are_the_children_of_what_holds_all(names: list[str], groups: list[str]) -> None:
    found = layer_groups(names)
    assert list(found) == groups
    assert [name for group in found.values() for name in group] == names


def test_it_is_readable() -> None:
    found = diagnose(make_net(), mean_losses((1.0, 1e6, 1.0)), batches())
    text = str(found)
    for words in ("task", "log share", *TASKS, found.advice[0]):
        assert words in text
    assert found.to_dict()["advice"] == list(found.advice)
    assert "nan" not in text  # what is not known is a dash
    assert str(diagnose(make_net(), mean_losses(), batches()[:1])).split("\n")[1].split()[2] == "-"
