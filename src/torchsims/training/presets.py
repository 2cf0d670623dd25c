"""From what a user says to a complete configuration: presets of the data set, spellings, and what a run is called."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torchsims.methods import Method
from torchsims.models.registry import network_title
from torchsims.registry import Spec, choose
from torchsims.training.config import RunConfig, command_line, default_of
from torchsims.workloads import Workload, workload_class

ADAPTER = "adapter"  # option of a model that makes it another architecture


def find_preset(kind: type[Workload], name: str) -> Mapping[str, Any]:
    """Return the settings of a preset of a data set."""
    presets = {"default": {}, **kind.presets}
    return presets[choose("preset of the data", name, presets)]


def complete_config(given: Mapping[str, Any]) -> RunConfig:
    """Return a configuration: the defaults, then the preset that is named, then what is given.

    Options that ``data``, ``model`` and ``method`` leave out are those of the preset, and names are in one spelling.

    Example:
        >>> complete_config({"preset": "small", "method": "SIMS:tau=1.0", "epochs": 3}).method
        'sims:tau=1'
    """
    kind = workload_class(given.get("data", RunConfig.data))
    preset = find_preset(kind, given.get("preset", RunConfig.preset))
    values = {**{key: value for key, value in preset.items() if key != "methods"}, **given}
    for part in ("data", "model"):
        if values.get(part) and preset.get(part):
            values[part] = str(Spec.parse(values[part]).with_defaults(preset[part]))
    config = RunConfig.from_dict(values)
    if not config.model:
        config = replace(config, model=kind.architectures[0])
    data, model = (str(Spec.parse(text)) for text in (config.data, config.model))
    return with_method(replace(config, data=data, model=model), config.method)


def with_method(config: RunConfig, text: str) -> RunConfig:
    """Return the configuration with another method; options that it leaves out are those of the preset.

    Example:
        >>> with_method(complete_config({}), "STCH:mu=2.0").method
        'stch:mu=2'
    """
    defaults = find_preset(workload_class(config.data), config.preset).get("methods", ())
    return replace(config, method=str(Method(str(Spec.parse(text).with_defaults(*defaults)))))


def find_changes(config: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return what differs from the preset: the preset's value and the one here, by the name of the setting.

    Where the data is, the seed, and which method or data set it is are no changes.
    """
    data, method = (Spec.parse(text).name for text in (config.data, config.method))
    usual = complete_config({"data": data, "method": method, "preset": config.preset})
    usual = replace(usual, root=config.root, seed=config.seed)
    here, there = config.to_dict(), usual.to_dict()
    return {name: (there[name], value) for name, value in here.items() if value != there[name]}


def label_of(config: RunConfig, method: Method | None = None, kind: type[Workload] | None = None) -> str:
    """Return what tables and plots call a run: model where it is not the usual one, method, preference, rescaling.

    Example:
        >>> label_of(complete_config({"method": "ew", "model": "stl", "rescale": {"depth": 100}}))
        'STL, EW, depth x 100'
        >>> label_of(complete_config({"method": "ew", "model": "nddr"}))
        'NDDR-CNN, EW'
    """
    kind = kind or workload_class(config.data)
    usual = Spec.parse(find_preset(kind, config.preset).get("model") or kind.architectures[0])
    model = Spec.parse(config.model) if config.model else usual
    adapter = model.options.get(ADAPTER, "")
    is_usual = (model.name, adapter) == (usual.name, usual.options.get(ADAPTER, ""))
    parts = [] if is_usual else [f"{network_title(model.name)} {adapter}".strip()]
    found = method or Method(config.method)
    parts += [found.class_name, config.tag] if config.tag else [found.label]
    parts += [f"{task} preferred {factor:g}" for task, factor in config.prefer.items()]
    return ", ".join([*parts, *(f"{task} x {factor:g}" for task, factor in config.rescale.items())])


def command_of(config: RunConfig) -> list[str]:
    """Return the words of the command line that repeats a run.

    Example:
        >>> " ".join(command_of(RunConfig(method="ew", epochs=3, rescale={"depth": 100.0})))
        'torchsims train --data scenes --method ew --rescale depth=100 --epochs 3'
    """
    values = {entry.name: getattr(config, entry.name) for entry in fields(config)}
    changed = {e.name: values[e.name] for e in fields(config) if values[e.name] != default_of(e)}
    always = {"data": config.data, "method": config.method}
    return command_line(["torchsims", "train"], always | changed)
