"""Train the runs of the NYUv2 result in docs/results.md, and keep the results of each as it finishes.

    python bench/nyuv2_convert.py nyuv2_rgb_96x128.zip nyuv2_labels_96x128.npz data/nyuv2_96x128
    python bench/nyuv2_convert.py nyuv2_rgb_192x256.zip nyuv2_labels_192x256.npz data/nyuv2_192x256
    python bench/nyuv2.py --jobs 2                     # in the folder with data/ and the encoder, ./mobilenetv2
    python bench/nyuv2.py --list                       # what is done, and what is left

A run is one command, `torchsims train`, in a folder of `runs/nyuv2`; one that was stopped is resumed. Its results,
without the losses of every step, become a file in `docs/results/nyuv2`: what is there is not trained again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from kept_runs import train_parts

EPOCHS = 16
METHODS = ("ew", "uw", "gls", "stch:normalize=yes", "foops", "famo", "logmerit", "sims")
MORE_METHODS = ("nashmtl", "ldcmtl", "mgda", "slaw")  # with the losses as they are
ARCHITECTURES = ("stl", "crossstitch", "nddr", "mtan", "densemtl:width=32")
SCALES = ("", "depth=100")
TUNED = "fixed:seg=1:depth=1:normals=16"  # the best of `weights/` on the validation split
UNIT_FREE = ("gls", "stch:normalize=yes", "logmerit", "sims")  # rescaled with one seed: rounding is all that differs


@dataclass(frozen=True)
class Plan:
    """One run: its name, and the settings in which it differs from the others."""

    name: str
    model: str = "hps"
    method: str = "ew"
    rescale: str = ""
    seed: int = 0
    size: str = "96x128"
    epochs: int = EPOCHS
    validation: float = 0.0  # what is reported trains on all 795 images

    def command(self, out: Path) -> list[str]:
        """Return the command that trains the run, or resumes it."""
        architecture, _, options = self.model.partition(":")
        model = ":".join(filter(None, (architecture, "encoder=./mobilenetv2", "frozen=1", options)))
        words = ["torchsims", "train", "--data", f"nyuv2:validation={self.validation:g}"]
        words += ["--root", f"data/nyuv2_{self.size}", "--model", model, "--method", self.method]
        words += ["--epochs", str(self.epochs), "--batch", "8", "--lr", "1e-3", "--seed", str(self.seed)]
        words += ["--rescale", self.rescale] if self.rescale else []
        words += ["--memory-format", "channels_last"]  # the same to rounding; the first 22 runs were without
        return [*words, "--threads", "1", "--out", str(out), "--resume"]


def plans() -> Iterator[Plan]:
    """Yield all runs, the most telling first."""
    for epochs in (8, 16, 32):  # do single-task networks still improve?
        yield Plan(f"longer/stl_epochs={epochs}", "stl", epochs=epochs, validation=0.2)
    for depth, normals in (*product((1, 4), (1, 4, 16)), (1, 64)):
        weights = f"fixed:seg=1:depth={depth}:normals={normals}"
        yield Plan(f"weights/depth={depth}_normals={normals}", method=weights, validation=0.2)
    for seed in range(3):
        for scale, method in product(SCALES, METHODS):
            if scale and seed and method in UNIT_FREE:
                continue
            yield Plan(_name("methods", method, scale, seed), method=method, rescale=scale, seed=seed)
        yield Plan(_name("methods", "tuned", "", seed), method=TUNED, seed=seed)
    for seed, model in product(range(3), ARCHITECTURES):
        yield Plan(_name("architectures", model, "", seed), model=model, seed=seed)
    for method in ("ew", "logmerit", "sims"):
        yield Plan(_name("larger", method, "", 0), method=method, size="192x256")
    for method in ("ew", "logmerit", "sims"):  # is the order another one after more epochs?
        yield Plan(_name("twice", method, "", 0), method=method, epochs=2 * EPOCHS)
    yield Plan(_name("twice", "tuned", "", 0), method=TUNED, epochs=2 * EPOCHS)
    yield Plan(_name("twice", "stl", "", 0), model="stl", epochs=2 * EPOCHS)
    for method, seed in product(MORE_METHODS, range(3)):
        yield Plan(_name("methods", method, "", seed), method=method, seed=seed)


def _name(part: str, what: str, scale: str, seed: int) -> str:
    words = (what.replace(":", "_"), f"{scale.replace('=', 'x')}" if scale else "", f"seed={seed}")
    return f"{part}/{'_'.join(filter(None, words))}"


def keep(out: Path, kept: Path) -> None:
    """Write the results of a run without the losses and weights of every step."""
    values = json.loads((out / "results.json").read_text())
    history = values["run"]["history"]
    values["run"]["history"] = {"validation": history["validation"]}
    kept.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    train_parts((__doc__ or "").splitlines()[0], "nyuv2", plans(), keep)
