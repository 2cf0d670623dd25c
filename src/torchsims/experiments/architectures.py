"""The upper half of the main tables: every architecture that suits the data, all trained by one method.

    torchsims reproduce architectures --data scenes --seeds 3 --out runs/architectures
    torchsims reproduce architectures --data nyuv2 --root ROOT --model hps:encoder=FOLDER/ --out runs/nyuv2
    torchsims reproduce architectures --data nyuv2 --root ROOT --preset paper --out runs/paper

Options of ``--model`` are those of all convolutional networks. Transformers and adapters take part if ``--models`` or
``--model`` names them, or with the presets of the paper, which read published weights from the hub.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchsims.experiments.paper import PRINTED, beside_paper
from torchsims.registry import Spec
from torchsims.reporting import Row
from torchsims.sweeps import Comparison
from torchsims.sweeps.architectures import find_encoder, model_grid, usual_models
from torchsims.training import RunConfig, label_of, resolve

PRESETS = ("paper", "ablation", "authors")
PUBLISHED = {
    **dict.fromkeys(("hps", "stl:of=hps", "crossstitch", "nddr", "mtan"), "microsoft/resnet-50"),
    "densemtl": "microsoft/resnet-101",
    "swinmtl": "microsoft/swinv2-base-patch4-window8-256",
    "vtagml": "microsoft/swin-small-patch4-window7-224",
}
WINDOWS, SMALLEST = ("swinmtl", "vtagml"), 256  # the last map of a Swin transformer must hold a window
ADAPTERS = ("sam2", "sam2:adapter=multilora", "sam2:adapter=mtsam")


def comparison(config: RunConfig, seeds: int, models: Sequence[str] = (), method: str = "ew") -> Comparison:
    """Return what to run; Delta_b is relative to the first architecture."""
    data = Spec.parse(config.data).name
    shape = resolve(replace(config, model="")).workload.example_inputs()[0].shape[-2:] if data in PRINTED else ()
    configs = model_grid(config, models or _suitable(config, min(shape, default=0)), method, seeds)
    by_label = {label_of(each): each.model for each in configs}
    encoders = {label_of(each): find_encoder(each) for each in configs}
    size = " x ".join(map(str, shape))

    def tables(rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
        return beside_paper(data, rows, by_label, encoders, size)

    named = "; ".join(f"{label}: {model}" for label, model in by_label.items())
    return Comparison("Architectures", configs, configs[0], (f"Architectures: {named}.",), tables=tables)


def _suitable(config: RunConfig, side: int) -> list[str]:
    """Return the architectures for images with this smaller side."""
    usual, adapters = list(usual_models(config)), []
    if "sam2" in usual:
        usual.remove("sam2")
        adapters = [*ADAPTERS]
        if config.preset in PRESETS:
            fitting = {name: hub for name, hub in PUBLISHED.items() if side >= SMALLEST or name not in WINDOWS}
            usual = [f"{name}:encoder={hub}" for name, hub in fitting.items()]
    return usual + adapters
