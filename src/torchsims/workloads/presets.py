"""Settings of the paper and of its authors' script that several data sets share.

The paper says that the learning rate of the challenger is "much larger" than that of the model; it is five times as
large here, as in the authors' script on NYUv2. See docs/vision.md.
"""

from collections.abc import Mapping
from typing import Any

Presets = Mapping[str, Mapping[str, Any]]

MODEL = "sam2:encoder=facebook/sam2.1-hiera-large:rank=32:scaling=0.5:dropout=0.1:size=1024"
ABLATION = "sam2:encoder=facebook/sam2.1-hiera-tiny:rank=16:scaling=0.5:dropout=0.1:size=1024"
COMMON = {"model": MODEL, "batch": 4, "lr": 1e-4, "weight_decay": 1e-6}


def paper_presets(data: str, *, epochs: int, tau: float, prox: float, ratio: float) -> Presets:
    """Return the presets of a data set.

    The paper gives the epochs and the temperature ``tau``, which STCH, FOOPS and SIMS share; the script of its authors
    gives lambda (``prox``) and the ratio of the learning rates.
    """
    paper = {
        **COMMON,
        "data": f"{data}:validation=0",
        "epochs": epochs,
        "warmup": 0.1,
        "methods": (f"sims:tau={tau:g}:ratio=5:prox=0", f"foops:tau={tau:g}:ratio=5:prox=0", f"stch:mu={tau:g}"),
    }
    two_copies = f"tau=3:ratio={ratio:g}:prox={prox:g}:order=alternating"
    script = {"warmup": 0.05, "methods": (f"sims:{two_copies}", f"foops:{two_copies}", "stch:mu=3")}
    return {
        "default": {"epochs": 20, "batch": 8, "lr": 1e-3},
        "small": {"epochs": 2, "batch": 8, "lr": 1e-3},
        "paper": paper,
        "ablation": {**paper, "model": ABLATION},
        "authors": {**paper, **script},
    }
