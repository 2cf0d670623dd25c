"""``resolve`` turns a configuration into objects, and is where every error about it is raised."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, final

import torch
from torch import nn

from torchsims.methods import METHODS, Method
from torchsims.models import MODELS, network_name
from torchsims.registry import Registry, Spec, choose
from torchsims.training.batches import count_batches, shards
from torchsims.training.config import RunConfig, default_of
from torchsims.training.presets import label_of
from torchsims.training.seeding import mix
from torchsims.training.selection import validation_score
from torchsims.workloads import WORKLOADS, Workload, load_workload

CHOICES = {
    "dtype": ("float32", "float64"),
    "memory_format": ("contiguous", "channels_last"),
    "autocast": ("none", "bf16", "fp16"),
    "evaluation": ("auto", "sequential", "joint"),
    "select": ("last", "best"),
}
POSITIVE = ("epochs", "batch", "micro_batches", "lr")
NOT_NEGATIVE = ("weight_decay", "clip", "seed", "split", "patience")


@final
@dataclass(frozen=True, eq=False)
class Resolved:
    """A configuration, with names in one spelling, and the objects that its names stand for."""

    config: RunConfig
    workload: Workload
    method: Method
    label: str  # what tables and plots call the run
    unscaled_label: str | None = None  # label of the same run without rescaled losses, if losses are rescaled

    def build_model(self) -> nn.Module:
        """Return a new model; the seed alone decides where it starts, and the global generator is seeded."""
        torch.manual_seed(mix(self.config.seed))
        model = self.workload.build_model(self.config.model).to(dtype=getattr(torch, self.config.dtype))
        if self.config.memory_format == "channels_last":
            for parameter in model.parameters():
                if parameter.dim() == 4:  # a filter: what a convolution returns is in the order of its filter
                    parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        return model

    @property
    def passes(self) -> str:
        """Forward and backward passes per step, such as ``2+2``."""
        config = self.config
        return self.method.count_passes(
            len(self.workload.tasks), evaluation=config.evaluation, micro_batches=config.micro_batches
        )

    def check_batches(self, ranks: int = 1) -> None:
        """Raise an error if the data cannot fill a batch, or a rank or micro-batch would have no item."""
        count_batches(self.workload.items("train"), self.config.batch)
        for rank in range(ranks):
            shards(list(range(self.config.batch)), rank, ranks, self.config.micro_batches)


def resolve(
    config: RunConfig,
    *,
    workload: Workload | None = None,
    method: Any = None,
    named: Collection[str] | None = None,
) -> Resolved:
    """Return the objects that a configuration names; every error about a configuration is raised here.

    ``workload`` and ``method`` (a scalarization, an aggregation or a method of TorchJD) stand in for those that the
    configuration names. For a configuration that comes from a checkpoint, ``named`` are the classes
    ``package.module:Class`` that may be imported; by default all, because the user wrote the configuration.

    Example:
        >>> resolve(RunConfig(rescale={"dept": 100.0}))
        Traceback (most recent call last):
        ValueError: There is no task `dept`. Did you mean `depth`? The names are seg, depth, normals.
    """
    if named is not None:
        check_registered(config, named)
    _check_numbers(config)
    if workload is None:
        workload = load_workload(config.data, config.tasks, config.root, **_workload_settings(config))
    else:
        config = replace(config, data=_path(workload), tasks=workload.tasks)
    found = Method(config.method if method is None else method)
    for name, factors in (("rescale", config.rescale), ("prefer", config.prefer)):
        for task, factor in factors.items():
            choose("task", task, workload.tasks)
            if not (isfinite(factor) and factor > 0):
                raise ValueError(f"Parameter `{name}` should be positive. Found {factor} for task `{task}`.")
    found.check(workload.tasks, config.prefer or None)
    config = replace(config, method=str(found), model=workload.check_model(config.model))
    workload.check_sources(config.model)
    _check_selection(config, workload)
    kind = type(workload)
    unscaled = label_of(replace(config, rescale={}), found, kind) if config.rescale else None
    return Resolved(config, workload, found, label_of(config, found, kind), unscaled)


def check_registered(
    config: RunConfig, named: Collection[str], parts: Sequence[str] = ("data", "method", "model")
) -> None:
    """Raise an error if a configuration from a checkpoint names a class that is neither registered nor in ``named``.

    Example:
        >>> check_registered(RunConfig(method="package.module:Mine"), named=[])
        Traceback (most recent call last):
        ValueError: The run names `package.module:Mine`, which no installed package registers. To import it, name it ...
    """
    registries: dict[str, Registry] = {"data": WORKLOADS, "method": METHODS, "model": MODELS}
    for part, registry in ((part, registries[part]) for part in parts):
        text = getattr(config, part)
        name = network_name(text) if part == "model" else Spec.parse(text).name
        if name and not registry.is_registered(name) and name not in named:
            raise ValueError(
                f"The run names `{name}`, which no installed package registers. To import it, name it again: "
                f"--{part} {name}."
            )


def _path(instance: object) -> str:
    return f"{type(instance).__module__}:{type(instance).__qualname__}"


def _workload_settings(config: RunConfig) -> dict[str, Any]:
    entries = [entry for entry in fields(config) if entry.metadata.get("workload")]
    return {e.name: getattr(config, e.name) for e in entries if getattr(config, e.name) != default_of(e)}


def _check_numbers(config: RunConfig) -> None:
    for name, known in CHOICES.items():
        choose(name, getattr(config, name), known)
    for name in POSITIVE:
        if not 0 < (value := getattr(config, name)) < inf:
            raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
    for name in NOT_NEGATIVE:
        if not 0 <= (value := getattr(config, name)) < inf:
            raise ValueError(f"Parameter `{name}` should not be negative. Found `{name} = {value}`.")
    for name in ("seed", "split"):
        if (value := getattr(config, name)) >= 2**63:
            raise ValueError(f"Parameter `{name}` should be below 2^63. Found `{name} = {value}`.")
    if not 0 <= config.warmup < 1:
        raise ValueError(f"Parameter `warmup` should be in [0, 1). Found `warmup = {config.warmup}`.")
    if config.autocast != "none" and config.dtype != "float32":
        raise ValueError(f"Parameter `autocast` should be `none` with {config.dtype}. Found `{config.autocast}`.")


def _check_selection(config: RunConfig, workload: Workload) -> None:
    if config.select == "last" and not config.patience:
        return
    if not workload.items("val"):
        raise ValueError(
            "Parameters `select` and `patience` need a validation split. Found none: leave them at `last` and 0."
        )
    higher = {task: dict(metric.higher_is_better) for task, metric in workload.metrics().items()}
    zeros = {task: dict.fromkeys(names, 0.0) for task, names in higher.items()}
    validation_score(zeros, higher, config.select_by)
