"""A run that is saved, loaded in a new process and continued is the run that was never stopped, bit for bit.

Run as a script, this file is the new process: it continues every saved run of a folder.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from helpers.small_runs import (
    DOUBLE,
    INNER,
    METHODS,
    OUTER,
    TASKS,
    TWO_COPIES,
    AnyMethod,
    Network,
    batch,
    differences,
    network,
    snapshot,
    task_losses,
    trained,
)
from torchsims import FOOPS, SIMS, Scalarized, scalarizations
from torchsims.normalizers import EMA, EpochWise, Fixed, Normalizer
from torchsims.scalarizations import DWA, EW, FAMO, GLS, IMTLL, RLW, STCH, UW, Chebyshev, LogMerit, Scalarization

NORMALIZERS: dict[str, Callable[[], Normalizer | None]] = {
    "none": lambda: None,
    "fixed": partial(Fixed, epoch=1),
    "epoch-wise": EpochWise,
    "ema": EMA,
}

SCALARIZATIONS: dict[str, Callable[[], Scalarization]] = {
    "Chebyshev": Chebyshev,
    "DWA": DWA,
    "EW": EW,
    "FAMO": FAMO,
    "GLS": GLS,
    "IMTLL": partial(IMTLL, TASKS, dtype=DOUBLE),
    "LogMerit": LogMerit,
    "RLW": RLW,
    "STCH": STCH,
    "STCH-normalized": partial(STCH, normalize=True, warmup_epochs=1),
    "UW": partial(UW, TASKS, dtype=DOUBLE),
}

ADAM: dict[str, Any] = {"outer": OUTER, "inner": INNER}
MOMENTUM: dict[str, Any] = {
    "outer": partial(SGD, lr=1e-4, momentum=0.9),
    "inner": partial(SGD, lr=1e-3, momentum=0.9, nesterov=True),
}
RATES = {"adam": ADAM, "momentum": MOMENTUM}
STARTS: dict[str, dict[str, Any]] = {"together": {}, "apart": {"perturb": 0.05, "keep_random_iterate": True}}


def cases() -> Iterator[tuple[str, Callable[[nn.Module], AnyMethod]]]:
    """Yield every method with every option that gives it something to remember."""
    for name, make in SCALARIZATIONS.items():
        for normalizer in NORMALIZERS if name in ("EW", "FAMO") else ("none", "ema"):
            yield f"{name} {normalizer}", partial(_one_copy, make, normalizer)
    ways = list(product(("sequential", "joint"), ("simultaneous", "alternating")))
    for (evaluation, order), (rates, optimizers), start in product(ways, RATES.items(), STARTS):
        settings = {"evaluation": evaluation, "order": order, **optimizers, **STARTS[start]}
        yield f"SIMS {evaluation} {order} {rates} {start}", partial(_two_copies, SIMS, settings, "none")
    for (evaluation, order), normalizer in product(ways, NORMALIZERS):
        settings = {"evaluation": evaluation, "order": order, **RATES["adam"], **STARTS["apart"]}
        yield f"FOOPS {evaluation} {order} {normalizer}", partial(_two_copies, FOOPS, settings, normalizer)


def _one_copy(make: Callable[[], Scalarization], normalizer: str, model: nn.Module) -> AnyMethod:
    return Scalarized(model, make(), outer=OUTER, normalize=NORMALIZERS[normalizer]())


def _two_copies(kind: type[SIMS], settings: dict[str, Any], normalizer: str, model: nn.Module) -> AnyMethod:
    return kind(model, normalize=NORMALIZERS[normalizer](), **settings)


def train(method: AnyMethod, first: int, last: int) -> None:
    """Take some steps, with one or two micro-batches; an epoch has two of them."""
    for step in range(first, last):
        method.step(task_losses, batch(2 * step), *[batch(2 * step + 1)] * (step % 2))
        if step % 2:
            method.end_epoch()


STOP, END = 3, 5  # in the middle of the second epoch, and in the third


def go_on(folder: Path) -> None:
    """Continue every run that was saved in a folder, and save what became of it."""
    saved = torch.load(folder / "saved.pt", weights_only=True)
    results = {}
    for name, make in cases():
        torch.manual_seed(12345)
        model = Network()
        method = make(model)
        model.load_state_dict(saved[name]["model"])
        method.load_state_dict(saved[name]["method"])
        torch.set_rng_state(saved[name]["random"])
        train(method, STOP, END)
        results[name] = snapshot(method)
    torch.save(results, folder / "results.pt")


def test_a_run_goes_on_in_a_new_process_as_if_never_stopped(tmp_path: Path) -> None:
    saved, expected = {}, {}
    for name, make in cases():
        method = make(network())
        train(method, 0, STOP)
        state = {"model": method.model.state_dict(), "method": method.state_dict(), "random": torch.get_rng_state()}
        saved[name] = deepcopy(state)
        train(method, STOP, END)
        expected[name] = snapshot(method)
    torch.save(saved, tmp_path / "saved.pt")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }
    subprocess.run([sys.executable, __file__, str(tmp_path)], check=True, timeout=240, env=environment)
    results = torch.load(tmp_path / "results.pt", weights_only=True)
    assert {name: found for name in expected if (found := differences(results[name], expected[name]))} == {}


def test_every_loss_level_method_is_saved_and_loaded() -> None:
    covered = {name.partition("-")[0] for name in SCALARIZATIONS}
    assert covered == set(scalarizations.__all__) - {"Scalarization", "from_torchjd"}


def assert_goes_on_alike(method: AnyMethod, other: AnyMethod) -> None:
    random = torch.get_rng_state()
    method.step(task_losses, batch(50))
    after = snapshot(method)
    torch.set_rng_state(random)
    other.step(task_losses, batch(50))
    assert differences(after, snapshot(other)) == []


@pytest.mark.parametrize(("first", "second"), [("sims", "sims-joint"), ("sims-joint", "sims")])
def test_a_state_of_one_evaluation_is_one_of_the_other(first: str, second: str) -> None:
    method, other = METHODS[first](network()), METHODS[second](network())
    train(method, 0, 3)
    other.model.load_state_dict(method.model.state_dict())
    other.load_state_dict(method.state_dict())
    assert differences(snapshot(method), snapshot(other)) == []
    assert_goes_on_alike(method, other)


@pytest.mark.parametrize("name", ["sims", "sims-joint", "famo", "uw"])
def test_a_state_fits_the_model_with_and_without_a_compiler(name: str) -> None:
    plain, inside = network(), network()
    compiled = torch.compile(inside, backend="eager")
    assert isinstance(compiled, nn.Module)
    method, other = METHODS[name](plain), METHODS[name](compiled)
    torch.manual_seed(0)
    train(method, 0, 2)
    inside.load_state_dict(plain.state_dict())
    other.load_state_dict(deepcopy(method.state_dict()))
    other.step(task_losses, batch(50))
    inside.load_state_dict(plain.state_dict())
    method.load_state_dict(other.state_dict())
    assert differences(snapshot(method), snapshot(other)) == sorted(
        f"/model/{prefix}{name}" for name in plain.state_dict() for prefix in ("", "_orig_mod.")
    )


@pytest.mark.skipif(not dist.is_available(), reason="this build of torch has no torch.distributed")
def test_a_state_fits_the_model_with_and_without_a_wrapper(tmp_path: Path) -> None:
    source = trained("sims")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        inside = network()
        inside.load_state_dict(source.model.state_dict())
        wrapped = METHODS["sims"](DistributedDataParallel(inside))
        wrapped.load_state_dict(deepcopy(source.state_dict()))
        wrapped.step(task_losses, batch(50))
        source.load_state_dict(wrapped.state_dict())
        found = differences(snapshot(source), snapshot(wrapped))
    finally:
        dist.destroy_process_group()
    assert all(name.startswith("/model/") for name in found)


def test_two_methods_that_load_one_state_stay_apart() -> None:
    source = trained("sims")
    state = deepcopy(source.state_dict())
    untouched = deepcopy(state)
    first, second = METHODS["sims"](network()), METHODS["sims"](network())
    for each in (first, second):
        each.model.load_state_dict(source.model.state_dict())
        each.load_state_dict(state)
    random = torch.get_rng_state()
    first.step(task_losses, batch(50))
    after = snapshot(first)
    torch.set_rng_state(random)
    second.step(task_losses, batch(50))
    assert differences(after, snapshot(second)) == []
    first.load_state_dict(untouched)
    second.load_state_dict(state)
    assert differences(snapshot(first), snapshot(second)) == []


# States that do not fit.


def assert_does_not_fit(method: AnyMethod, state: Any, *words: str) -> None:
    """Check that a state is refused and changes nothing."""
    before = snapshot(method)
    with pytest.raises((ValueError, RuntimeError)) as caught:
        method.load_state_dict(state)
    for word in words:
        assert word in str(caught.value)
    assert differences(snapshot(method), before) == []


def other_order() -> Network:
    """Return a network with the same parameters, registered in another order."""
    model = network()
    head = model.metres
    del model.metres
    model.metres = head
    return model


@pytest.mark.parametrize("name", list(METHODS))
def test_the_state_of_another_method_does_not_fit(name: str) -> None:
    other = "ew" if name in TWO_COPIES else "sims"
    assert_does_not_fit(trained(name), trained(other).state_dict(), "Found one of `")


def test_the_state_of_sims_does_not_fit_foops() -> None:
    assert_does_not_fit(trained("foops"), trained("sims").state_dict(), "`FOOPS`", "`SIMS`")


@pytest.mark.parametrize("name", ["ew", "rlw", "uw", "log-merit", "famo"])
def test_the_state_of_another_scalarization_does_not_fit(name: str) -> None:
    kinds = {"ew": EW, "rlw": RLW, "log-merit": LogMerit, "famo": FAMO}
    normalize = EMA(0.5) if name == "uw" else None
    other = Scalarized(network(), GLS(), outer=OUTER, normalize=normalize)
    assert_does_not_fit(trained(name), other.state_dict(), f"`{kinds.get(name, UW).__name__}`", "`GLS`")


@pytest.mark.parametrize("name", list(METHODS))
def test_the_state_of_another_model_does_not_fit(name: str) -> None:
    method = trained(name)
    wider = METHODS[name](network(width=4))
    assert_does_not_fit(method, wider.state_dict(), "`first.bias`", "[5]", "[4]")
    renamed = network()
    renamed.second, renamed.first.bias = renamed.first, None  # type: ignore[assignment]
    assert_does_not_fit(method, METHODS[name](renamed).state_dict(), "`first.bias`", "none")
    frozen = network()
    frozen.metres.bias.requires_grad_(False)
    assert_does_not_fit(method, METHODS[name](frozen).state_dict(), "`metres.bias`", "none")
    assert_does_not_fit(method, METHODS[name](other_order()).state_dict(), "order")


@pytest.mark.parametrize("name", ["sims", "sims-joint", "sims-alternating", "foops"])
def test_the_state_of_a_model_with_other_buffers_does_not_fit(name: str) -> None:
    state = deepcopy(trained(name).state_dict())
    del state["challenger"]["norm.running_mean"]
    assert_does_not_fit(trained(name), state, "norm.running_mean")
    state["challenger"]["norm.running_mean"] = torch.zeros(7)
    assert_does_not_fit(trained(name), state, "`norm.running_mean`", "(5,)", "(7,)")


def test_the_state_of_another_normalizer_does_not_fit() -> None:
    method, other = (Scalarized(network(), EW(), outer=OUTER, normalize=each) for each in (Fixed(), EpochWise()))
    assert_does_not_fit(method, other.state_dict(), "`Fixed`", "`EpochWise`")
    plain = Scalarized(network(), EW(), outer=OUTER)
    assert_does_not_fit(method, plain.state_dict(), "normalizer")


def test_the_state_of_other_tasks_does_not_fit_a_method_that_knows_its_own() -> None:
    method = trained("uw")
    other = deepcopy(method.state_dict())
    other["tasks"]["names"] = ["pixels", "metres"]
    assert_does_not_fit(method, other, "['metres', 'pixels']", "['pixels', 'metres']")


@pytest.mark.parametrize("optimizer", ["outer", "inner"])
def test_the_state_of_another_optimizer_does_not_fit(optimizer: str) -> None:
    other: dict[str, Any] = {**ADAM, optimizer: partial(SGD, lr=0.1)}
    method = SIMS(network(), **ADAM)
    method.step(task_losses, batch(0))
    assert_does_not_fit(method, SIMS(network(), **other).state_dict(), "`Adam`")
    method = SIMS(network(), **other)
    method.step(task_losses, batch(0))
    assert_does_not_fit(method, SIMS(network(), **ADAM).state_dict(), "`SGD`")


@pytest.mark.parametrize("name", list(METHODS))
def test_a_truncated_state_does_not_fit(name: str) -> None:
    method = trained(name)
    whole = trained(name, steps=2).state_dict()
    for entry in whole:
        assert_does_not_fit(method, {key: value for key, value in whole.items() if key != entry})
    for entry, part in whole.items():
        for missing in part if isinstance(part, dict) else []:
            cut = {**whole, entry: {key: value for key, value in part.items() if key != missing}}
            assert_does_not_fit(method, cut)
    assert_goes_on_alike(method, trained(name))


@pytest.mark.parametrize("name", list(METHODS))
def test_a_state_that_does_not_fit_spares_the_gradients_that_wait(name: str) -> None:
    method, twin = trained(name), trained(name)
    random = torch.get_rng_state()
    method.backward(task_losses, batch(40))
    broken = {**method.state_dict(), "outer": {}}
    with pytest.raises(ValueError, match="param_groups"):
        method.load_state_dict(broken)
    method.update()
    after = snapshot(method)
    torch.set_rng_state(random)
    twin.step(task_losses, batch(40))
    assert differences(after, snapshot(twin)) == []


@pytest.mark.parametrize("name", list(METHODS))
def test_a_state_that_fits_replaces_the_gradients_that_wait(name: str) -> None:
    method = trained(name)
    state = deepcopy(method.state_dict())
    model = deepcopy(method.model.state_dict())
    method.backward(task_losses, batch(40))
    method.load_state_dict(state)
    method.model.load_state_dict(model)
    with pytest.raises(RuntimeError, match="`backward`"):
        method.update()
    torch.manual_seed(0)
    method.step(task_losses, batch(41))
    after = snapshot(method)
    twin = trained(name)
    torch.manual_seed(0)
    twin.step(task_losses, batch(41))
    assert differences(after, snapshot(twin)) == []


def test_a_state_of_more_tasks_loads_after_steps_with_fewer() -> None:
    """What a method found out about the losses of its own run is not held against those of the state."""

    def three(model: nn.Module, batch: Any) -> Any:
        losses = task_losses(model, batch)
        return {**losses, "third": losses["metres"]}

    method, other = (Scalarized(network(), EW(), outer=OUTER) for _ in range(2))
    for each, closure in ((method, task_losses), (other, three)):
        each.step(closure, batch(0), batch(1))
    method.load_state_dict(other.state_dict())
    assert set(method.step(three, batch(2), batch(3)).losses) == {*TASKS, "third"}


# The random iterate, and the challenger.


def lends(method: AnyMethod) -> list[Callable[[], AbstractContextManager[nn.Module]]]:
    assert isinstance(method, SIMS)
    return [method.challenger, method.random_iterate]


@pytest.mark.parametrize("name", ["sims", "sims-joint", "sims-alternating", "sims-alternating-joint"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_lent_model_comes_back_exactly_as_it_was(name: str, which: int) -> None:
    method = trained(name, steps=6)
    before = snapshot(method)
    lend = lends(method)[which]
    with lend() as model:
        assert model is method.model
        lent = {key: value.clone() for key, value in model.state_dict().items()}
        model.eval()
        model(batch(0)[0])
        model.train()
    entry = "challenger" if which == 0 else "random_iterate"
    expected = method.state_dict()[entry]
    assert all(torch.equal(lent[key], expected[key]) for key in lent)
    assert any(not torch.equal(lent[key], value) for key, value in method.model.state_dict().items())
    assert differences(snapshot(method), before) == []
    with pytest.raises(ZeroDivisionError), lend():
        raise ZeroDivisionError
    assert differences(snapshot(method), before) == []


@pytest.mark.parametrize("which", [0, 1])
def test_a_lent_model_is_not_seen_through_old_casts(which: int) -> None:
    """Autocast keeps the casts of parameters until its block ends; a model that changes inside must not use them."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    method = SIMS(model, **ADAM, perturb=1.0, keep_random_iterate=True, seed=1)
    for i in range(5):
        method.step(lambda model, x: (model(x) - 1).square().mean(0), batch(i, torch.float32)[0])
    x = batch(9, torch.float32)[0]
    with torch.autocast("cpu", torch.bfloat16):
        own = model(x)
        with lends(method)[which]() as lent:
            inside = lent(x)
            torch.clear_autocast_cache()
            assert torch.equal(inside, lent(x))
        assert torch.equal(own, model(x))


def test_a_random_iterate_has_to_be_asked_for() -> None:
    method = SIMS(network(), **ADAM)
    with pytest.raises(RuntimeError, match=r"`keep_random_iterate` should be True .*Found"):
        method.random_iterate().__enter__()


def test_every_iterate_is_kept_equally_often() -> None:
    """Chi-square over seeds: 4 iterates have 3 degrees of freedom, where 16.3 is exceeded once in a thousand times."""
    steps, seeds = 3, 240
    kept: Counter[int] = Counter()
    x = batch(0)[0]
    for seed in range(seeds):
        torch.manual_seed(0)
        model = nn.Linear(3, 2, dtype=DOUBLE)
        method = SIMS(model, **MOMENTUM, keep_random_iterate=True, seed=seed)
        iterates = [model.weight.detach().clone()]
        for _ in range(steps):
            method.step(lambda model, x: (model(x) - 1).square().mean(0), x)
            iterates.append(model.weight.detach().clone())
        with method.random_iterate() as lent:
            weight = lent.get_parameter("weight")
            (index,) = [k for k, iterate in enumerate(iterates) if torch.equal(iterate, weight)]
        kept[index] += 1
    expected = seeds / (steps + 1)
    assert sum((kept[k] - expected) ** 2 / expected for k in range(steps + 1)) < 16.3


if __name__ == "__main__":
    go_on(Path(sys.argv[1]))
