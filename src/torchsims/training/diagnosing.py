"""A diagnosis of named data with a model, new or of a run."""

from dataclasses import replace
from pathlib import Path

import torch

from torchsims.diagnosis import Diagnosis, diagnose
from torchsims.training.batches import load_batches, shards, training_batches
from torchsims.training.closure import RunClosure
from torchsims.training.predict import load_trained
from torchsims.training.resolution import Resolved
from torchsims.training.seeding import mix
from torchsims.training.start import load_start
from torchsims.training.world import launched

__all__ = ["diagnose_training"]


def diagnose_training(resolved: Resolved, run: Path | None = None, *, batches: int = 8) -> Diagnosis:
    """Return the diagnosis of a model at the start of training, or of the trained model of a run, in full precision.

    The batches are the first ones of the first epoch; under ``torchrun`` every process has a part of each.

    Args:
        resolved: the configuration.
        run: the folder of a run with this configuration; a new model without.
        batches: how many batches to look at, at most.

    Example:
        >>> from torchsims.training import RunConfig, resolve
        >>> config = RunConfig("scenes:images=8:resolution=32", model="hps:width=8", batch=4)
        >>> diagnose_training(resolve(config), batches=1).tasks
        ('depth', 'normals', 'seg')
    """
    config, workload = resolved.config, resolved.workload
    with launched() as world:
        model = resolved.build_model().to(world.device)
        if run is None:
            load_start(model)
        else:
            load_trained(model, resolved, run)
        closure = RunClosure(workload, replace(config, autocast="none"), world.device)
        items = training_batches(workload.items("train"), config.batch, config.seed, 0)[:batches]
        workload.begin_epoch(0)
        parts = (part for row in items for part in shards(row.numpy(), world.rank, world.size, config.micro_batches))
        loaded = map(closure.to_device, load_batches(workload.split("train"), parts, 0))
        torch.manual_seed(mix(config.seed, 0, world.rank))  # as in the first step
        return diagnose(
            model.train(), closure.with_outputs, loaded, max_batches=batches, micro_batches=config.micro_batches
        )
