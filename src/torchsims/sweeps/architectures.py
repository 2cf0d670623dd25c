"""Configurations that differ in their architecture."""

from collections.abc import Sequence
from dataclasses import replace

from torchsims.models import MODELS, SINGLE_TASK, network_name
from torchsims.models.registry import network_options
from torchsims.registry import Spec
from torchsims.sweeps.plans import method_grid
from torchsims.training import RunConfig, label_of
from torchsims.workloads import workload_class

SEPARATE = ("swinmtl", "vtagml", "sam2", "esmm")
"""Architectures with encoders or tasks of their own: they do not share options with others."""


def usual_models(config: RunConfig) -> tuple[str, ...]:
    """Return the architectures of the data that need no weights, one network per task, and that of the configuration.

    Example:
        >>> usual_models(RunConfig(model="hps"))
        ('hps', 'stl', 'crossstitch', 'nddr', 'mtan', 'densemtl')
    """
    own = network_name(config.model)
    first, *others = workload_class(config.data).architectures
    return (first, SINGLE_TASK, *(name for name in others if name not in SEPARATE or name == own))


def model_grid(config: RunConfig, models: Sequence[str], method: str, seeds: int) -> tuple[RunConfig, ...]:
    """Return configurations of all architectures with the seeds 0, 1, ...; all of one seed before the next seed.

    Options of ``config.model`` are also those of every other architecture that has them, unless it has an encoder or
    tasks of its own.

    Example:
        >>> found = model_grid(RunConfig(model="hps:width=8"), ["hps", "stl", "mtan:width=16"], "ew", seeds=1)
        >>> [config.model for config in found]
        ['hps:width=8', 'stl:of=hps:width=8', 'mtan:width=16']
    """
    texts = [_with_shared_options(text, config) for text in models]
    configs = tuple(replace(each, model=text) for each in method_grid(config, [method], seeds) for text in texts)
    if len({label_of(each) for each in configs}) < len(texts):
        raise ValueError(f"Parameter `models` should hold distinct architectures. Found {', '.join(models)}.")
    return configs


def find_encoder(config: RunConfig) -> str:
    """Return the encoder of a configuration; empty if its architecture has no such option.

    Example:
        >>> find_encoder(RunConfig(model="stl:of=hps")), find_encoder(RunConfig(model="mtan:encoder=resnet50"))
        ('small', 'resnet50')
    """
    default = network_options(MODELS.load(network_name(config.model))).get("encoder", "")
    return Spec.parse(config.model).options.get("encoder", str(default))


def _with_shared_options(text: str, config: RunConfig) -> str:
    spec, base = Spec.parse(text), network_name(config.model)
    single = spec.name == SINGLE_TASK
    usual = workload_class(config.data).architectures[0] if base in SEPARATE else base
    name = network_name(text) or usual
    given = {key: value for key, value in spec.options.items() if key != "of"}
    shared = Spec.parse(config.model).options if name == base or not {name, base} & {*SEPARATE} else {}
    known = network_options(MODELS.load(name)) if shared else {}
    taken = {key: value for key, value in shared.items() if key in known and key not in given}
    return str(Spec(spec.name, {**({"of": name} if single else {}), **given, **taken}))
