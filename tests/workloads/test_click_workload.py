"""Click logs: splits, labels, and what the networks predict."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.training_cases import preset
from torchsims.data.clicks import ClickLog, generate_clicks
from torchsims.models import ESMM, SingleTask
from torchsims.models.tabular.base import TabularNetwork
from torchsims.training import RunConfig, train
from torchsims.workloads import Batched, load_workload
from torchsims.workloads.aliccp import AliCCPWorkload


@pytest.mark.parametrize("rows", [19, 20, 41, 2000])
def test_training_and_validation_rows_are_disjoint_and_all(rows: int) -> None:
    numbered = generate_clicks(max(rows, 40)).part(slice(rows))
    numbered.own["205"][:] = np.arange(rows)
    log = ClickLog.in_memory(numbered, numbered)
    workload = AliCCPWorkload(rows=rows)
    workload._log = log
    place = list(log.codes).index("205")
    found = []
    for name in ("train", "val"):
        data = workload.split(name)
        found += data.batch(range(len(data)))["codes"][:, place].tolist()
    assert sorted(found) == list(range(rows))


@pytest.mark.parametrize("name", ["train", "val", "test"])
def test_a_split_in_memory_is_the_one_that_is_read_on_demand(name: str) -> None:
    workload = AliCCPWorkload(rows=2000)
    kept, on_demand = workload.split(name), workload._impressions(name)
    assert len(kept) == len(on_demand) == workload.items(name)
    items = np.random.default_rng(0).integers(len(kept), size=50)
    one, other = kept.batch(items), on_demand.batch(items.tolist())
    assert one.keys() == other.keys()
    for field, column in one.items():
        assert column.dtype == other[field].dtype
        assert torch.equal(column, other[field])
        assert torch.equal(column[0], kept[int(items[0])][field])


def test_labels_of_conversion_are_those_of_clicked_rows() -> None:
    data = load_workload("aliccp:rows=20000").split("train")
    assert isinstance(data, Batched)
    batch = data.batch(range(len(data)))
    assert ((batch["target/cvr"] >= 0) == (batch["target/ctr"] > 0)).all()
    assert (batch["target/ctcvr"] == (batch["target/cvr"] > 0)).all()
    assert batch["target/ctcvr"].sum() > 10


@pytest.mark.parametrize("model", ["sharedbottom", "mmoe", "ple", "mlp"])
def test_every_network_predicts_all_three_rates(model: str) -> None:
    workload = load_workload("aliccp:rows=500")
    data = workload.split("test")
    assert isinstance(data, Batched)
    batch = data.batch(range(64))
    found = workload.predict(workload.build_model(model), batch)
    p = found["ctr"].sigmoid() * found["cvr"].sigmoid()
    torch.testing.assert_close(found["ctcvr"].exp(), p)  # the logarithm of the product ranks as the product does
    assert sorted(workload.losses(found, batch).mean()) == ["ctr", "cvr"]
    assert sorted(workload.metrics()) == ["ctcvr", "ctr", "cvr"]


@pytest.mark.parametrize("of", ["sharedbottom", "mlp", "mmoe", "ple"])
def test_tasks_of_single_networks_share_nothing(of: str) -> None:
    workload = load_workload("aliccp:rows=500")
    data = workload.split("test")
    assert isinstance(data, Batched)
    batch, model = data.batch(range(64)), workload.build_model(f"stl:of={of}:embedding=4")
    workload.predict(model, batch)["ctr"].sum().backward()  # type: ignore[no-untyped-call]  # torch has no types here
    assert isinstance(model, SingleTask)
    own, other = model.networks
    assert all(p.grad is not None for p in own.parameters())
    assert all(p.grad is None for p in other.parameters())
    assert isinstance(own, TabularNetwork)
    shared = {name: p.shape for name, p in workload.build_model(f"{of}:embedding=4").named_parameters()}
    assert all(shared[name] == p.shape for name, p in own.features.named_parameters(prefix="features"))


def test_a_single_network_learns_as_if_it_were_alone(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"method": "ew", "epochs": 1, "batch": 100, "dtype": "float64"}
    run = train(RunConfig(data="aliccp:rows=2000", model="stl:of=mlp:hidden=8", **quick), tmp_path / "both")
    alone = RunConfig(data="aliccp:rows=2000", model="mlp:hidden=8", tasks=("ctr",), **quick)
    assert run.metrics["ctr"]["auc"] == pytest.approx(train(alone, tmp_path / "one").metrics["ctr"]["auc"], abs=0.01)


def test_esmm_trains_on_all_impressions_and_still_knows_the_conversion() -> None:
    workload = load_workload("aliccp:rows=500", tasks=["ctr", "ctcvr"])
    data = workload.split("test")
    assert isinstance(data, Batched)
    batch = data.batch(range(64))
    model = workload.build_model("esmm")
    assert isinstance(model, ESMM)
    losses = workload.losses(workload.predict(model, batch), batch)
    assert {task: int(count) for task, count in losses.count.items()} == {"ctr": 64, "ctcvr": 64}  # type: ignore[union-attr]
    losses.total["ctcvr"].backward()  # type: ignore[call-overload, index]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.towers.parameters())
    with pytest.raises(ValueError, match=r"The tasks of ESMM should be ctr and ctcvr. Found ctr, cvr"):
        load_workload("aliccp:rows=500").build_model("esmm")


def test_the_quotient_of_two_rates_is_the_tower_of_esmm() -> None:
    workload = load_workload("aliccp:rows=500", tasks=["ctr", "ctcvr"])
    data = workload.split("test")
    assert isinstance(data, Batched)
    batch = data.batch(range(64))
    found = workload.predict(workload.build_model("esmm"), batch)
    quotient = found["ctcvr"].sigmoid() / found["ctr"].sigmoid()
    torch.testing.assert_close(found["cvr"].sigmoid(), quotient)


def test_a_synthetic_log_is_trained_and_ranks_better_than_chance(tmp_path: Path) -> None:
    settings = preset("small", data="aliccp:rows=40000", method="sims")
    metrics = train(settings, tmp_path / "run").metrics
    assert sorted(metrics) == ["ctcvr", "ctr", "cvr"]
    assert metrics["ctr"]["auc"] > 0.55


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match=r"There is no task `cvrr`. Did you mean `cvr`"):
        load_workload("aliccp", tasks=["cvrr"])
    with pytest.raises(ValueError, match="Option `rows` should not be negative"):
        load_workload("aliccp:rows=-1")
