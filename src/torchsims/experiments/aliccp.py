"""The table of Ali-CCP: click and conversion rates with a shared bottom, and the area under the ROC curve of each.

    torchsims reproduce aliccp --root ROOT --seeds 3 --out runs/aliccp

Without a folder of the data it trains on a synthetic log with the same fields and the same imbalance: 100 000
impressions, one in 20 of them for validation, and 50 000 for testing. The paper compares EW, FOOPS, STCH and SIMS; here
are all methods of the main table.
"""

from dataclasses import replace

from torchsims.experiments.methods import METHODS
from torchsims.registry import Spec, choose
from torchsims.sweeps import Comparison, method_grid, with_shared_temperature, with_variant
from torchsims.training import RunConfig, resolve

ESMM_TASKS = ("ctr", "ctcvr")  # it learns the conversion rate from their quotient


def comparison(config: RunConfig, seeds: int) -> Comparison:
    """Return what to run."""
    choose("click log", Spec.parse(config.data).name, ["aliccp"])
    if Spec.parse(config.model).name == "esmm" and not config.tasks:
        config = replace(config, tasks=ESMM_TASKS)
    configs = method_grid(config, with_shared_temperature(config, METHODS), seeds)
    notes = () if config.root else (_synthetic_note(config),)
    return Comparison("Click logs", configs, with_variant(config, "ew"), notes)


def _synthetic_note(config: RunConfig) -> str:
    workload = resolve(config).workload
    sizes = {name: workload.items(name) for name in ("train", "val", "test")}
    return (
        f"The log is synthetic, with the fields and the imbalance of Ali-CCP: {sizes['train']} impressions for "
        f"training, {sizes['val']} for validation, {sizes['test']} for testing. Its numbers are not those of the paper."
    )
