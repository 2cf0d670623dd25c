"""The table of Ali-CCP: click and conversion rates with a shared bottom, and the area under the ROC curve of each.

    torchsims reproduce aliccp --root ROOT --seeds 3 --out runs/aliccp

Without a folder of the data it trains on a made-up log with the same fields and the same imbalance: 100 000
impressions, one in 20 of them to validate on, and 50 000 to test on. The paper compares EW, FOOPS, STCH and SIMS; here
are all methods of the main table.
"""

from collections.abc import Mapping
from typing import Any

from torchsims._specs import choose, split_spec
from torchsims.experiments.compare import Comparison, grid_of, tempered, variant
from torchsims.experiments.methods import METHODS
from torchsims.training import Settings

__all__ = ["comparison", "usual"]

DATA = "aliccp"
ESMM_TASKS = "ctr,ctcvr"  # it learns the conversion rate from their quotient


def usual(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command line, and beside them the data, and the tasks that ESMM can train.

    Example:
        >>> usual({"data": None, "model": "esmm:bottom=64", "tasks": None})
        {'data': 'aliccp', 'model': 'esmm:bottom=64', 'tasks': 'ctr,ctcvr'}
    """
    data = given["data"] or DATA
    choose("click log", split_spec(data)[0], [DATA])
    esmm = split_spec(given["model"] or "")[0] == "esmm"
    return {**given, "data": data, "tasks": given["tasks"] or (ESMM_TASKS if esmm else None)}


def comparison(base: Settings, seeds: int, command: str) -> Comparison:
    """Return what to run."""
    runs = grid_of(base, tempered(base, METHODS), seeds)
    return Comparison(
        "Click logs", command, runs, variant(base, "ew").label, notes=() if base.root else (_made_up(base),)
    )


def _made_up(base: Settings) -> str:
    workload = base.workload()
    sizes = {name: workload.items(name) for name in ("train", "val", "test")}
    return (
        f"The log is made up, with the fields and the imbalance of Ali-CCP: {sizes['train']} impressions to train on, "
        f"{sizes['val']} to validate on and {sizes['test']} to test on. Its numbers are not those of the paper."
    )
