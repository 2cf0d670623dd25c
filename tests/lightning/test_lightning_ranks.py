"""Two processes of Lightning's `ddp`, and of `ModelParallelStrategy` with FSDP2, are the loop by hand."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from helpers.lightning_modules import BATCHES, Module, fit, plain_loop
from helpers.methods import STEPPERS
from helpers.ranks import run_ranks
from helpers.support import flat, make_net, parameters, task_losses

# What is returned is not changed in place.
pytestmark = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor:UserWarning")

DDP = ["SIMS", "SIMS alternating", "FOOPS", "EW", "FAMO", "MGDA", "GradNorm"]
SHARDED = ["SIMS", "EW"]


def rank_options(rank: int, **options: Any) -> dict[str, Any]:
    """Return the options of a trainer on one of two ranks, which are processes already."""
    os.environ.update(LOCAL_RANK=str(rank), NODE_RANK="0", WORLD_SIZE="2")
    return {
        "devices": 2,
        "strategy": "ddp",
        "use_distributed_sampler": False,
        "batches": BATCHES[:6][rank::2],
        "accumulate_grad_batches": 2,
        **options,
    }


def on_ddp(rank: int, name: str) -> tuple[Tensor, Tensor, int]:
    """Return what is left in the module, the same of a loop by hand, and the number of steps."""
    module = Module(STEPPERS[name], batch_norm=True)
    trainer = fit(module, **rank_options(rank, gradient_clip_val=None if "alternating" in name else 0.5))
    net = make_net(batch_norm=True)
    method = STEPPERS[name](DistributedDataParallel(net))
    for epoch in range(2):
        if epoch:
            method.end_epoch()
        for group in (BATCHES[:4], BATCHES[4:6]):
            method.backward(task_losses, *group[rank::2])
            if "alternating" not in name:
                method.clip_grad_norm_(0.5)
            method.update()
    states = [flat(each.double() for each in found.state_dict().values()) for found in (module.net, net)]
    return states[0], states[1], trainer.global_step


def whole_batch_on_ddp(rank: int) -> Tensor:
    module = Module(STEPPERS["SIMS"])
    fit(module, **rank_options(rank))
    return parameters(module)


def resumed_on_ddp(rank: int, folder: Path) -> tuple[Tensor, Tensor]:
    modules = [Module(STEPPERS["SIMS"], batch_norm=True, seed=seed) for seed in (0, 0, 5)]
    fit(modules[0], **rank_options(rank), max_epochs=3)
    options = rank_options(rank, enable_checkpointing=True)
    fit(modules[1], max_epochs=2, callbacks=[ModelCheckpoint(folder, save_last=True)], **options)
    fit(modules[2], max_epochs=3, ckpt_path=folder / "last.ckpt", callbacks=[ModelCheckpoint(folder)], **options)
    states = [flat(each.double() for each in modules[index].net.state_dict().values()) for index in (0, 2)]
    challengers = [modules[index].method.state_dict()["challenger"].values() for index in (0, 2)]
    both = [torch.cat([state, flat(c.double() for c in each)]) for state, each in zip(states, challengers, strict=True)]
    return both[0], both[1]


def joint_on_ddp(rank: int) -> str:
    try:
        fit(Module(STEPPERS["SIMS joint"]), **rank_options(rank))
    except ValueError as error:
        return str(error)
    return ""


class Sharded(Module):
    """The network sharded as Lightning's documentation says."""

    def configure_model(self) -> None:
        from torch.distributed.fsdp import fully_shard

        assert self.device_mesh is not None
        fully_shard(self.net, mesh=self.device_mesh["data_parallel"])


def on_shards(rank: int, name: str, folder: Path) -> tuple[Tensor, int, bool]:
    module = Sharded(STEPPERS[name])
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1)
    weights = ModelCheckpoint(folder / name, "{epoch}", save_weights_only=True)
    options = rank_options(rank, strategy=strategy, enable_checkpointing=True, callbacks=[weights])
    trainer = fit(module, **options, gradient_clip_val=0.5)
    full = flat(p.full_tensor() for p in module.parameters())  # type: ignore[attr-defined]
    return full, trainer.global_step, (folder / name / "epoch=1.ckpt").exists()


def full_checkpoint_of_shards(rank: int, folder: Path) -> str:
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1)
    options = rank_options(rank, strategy=strategy, enable_checkpointing=True, callbacks=[ModelCheckpoint(folder)])
    try:
        fit(Sharded(STEPPERS["SIMS"]), **options)
    except ValueError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    jobs: dict[str, Any] = {
        **{f"ddp {name}": (on_ddp, (name,)) for name in DDP},
        "whole batch": (whole_batch_on_ddp, ()),
        "resumed": (resumed_on_ddp, (folder / "resumed",)),
        "joint": (joint_on_ddp, ()),
        **{f"shards {name}": (on_shards, (name, folder)) for name in SHARDED},
        "full checkpoint": (full_checkpoint_of_shards, (folder / "full",)),
    }
    return run_ranks(jobs, timeout=60, start_method="fork")  # this process has imported Lightning


@pytest.mark.parametrize("name", DDP)
def test_ddp_is_the_loop_by_hand_on_both_ranks(name: str, ranks: dict[str, list[Any]]) -> None:
    for found in ranks[f"ddp {name}"]:
        assert not isinstance(found, str), found
        module, by_hand, steps = found
        assert steps == 4
        assert (module - by_hand).abs().max() < 1e-12


def test_two_ranks_are_one_rank_with_the_whole_batch(ranks: dict[str, list[Any]]) -> None:
    by_hand = parameters(plain_loop(STEPPERS["SIMS"], parts=4, batches=BATCHES[:6]))
    for found in ranks["whole batch"]:
        assert (found - by_hand).abs().max() < 1e-12


def test_ddp_resumed_is_uninterrupted_bit_for_bit(ranks: dict[str, list[Any]]) -> None:
    whole, resumed = ranks["resumed"][0]
    assert torch.equal(whole, resumed)


def test_joint_evaluation_inside_ddp_is_one_sentence(ranks: dict[str, list[Any]]) -> None:
    assert all("should be 'sequential' inside `DistributedDataParallel`" in message for message in ranks["joint"])


@pytest.mark.parametrize("name", SHARDED)
def test_a_sharded_model_is_trained_like_a_whole_one(name: str, ranks: dict[str, list[Any]]) -> None:
    by_hand = parameters(
        plain_loop(STEPPERS[name], parts=4, batches=BATCHES[:6], after_backward=lambda m: m.clip_grad_norm_(0.5))
    )
    for found, steps, saved in ranks[f"shards {name}"]:
        assert steps == 4
        assert saved
        assert (found - by_hand).abs().max() < 1e-12


def test_a_full_checkpoint_of_shards_is_one_sentence_at_the_start(ranks: dict[str, list[Any]]) -> None:
    assert all("`save_weights_only=True`" in message for message in ranks["full checkpoint"])
