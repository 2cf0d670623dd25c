"""Train every method on several data sets, with default and with tuned options, and keep the metrics of every run.

    python bench/real_tables.py qm9 qm9_14k_feats.npz data/qm9.parquet
    python bench/real_tables.py tox21 tox21_ecfp4_1024.npz data/tox21.parquet
    OMP_NUM_THREADS=1 nice -n 10 python bench/ranking.py --jobs 2
    python bench/ranking.py --list              # what is done, and what is left

The folder `data` also holds `hillstrom.csv.gz` and `mnist`. Tables and clicks: 20 trials per method on the validation
split, learning rate included, then five seeds with the default and five with the tuned options. Images: three seeds,
not tuned. A part is one command, `torchsims compare`, in a folder of `runs/ranking`; one that was stopped is resumed.
Its metrics become a file in `docs/results/ranking`: what is there is not trained again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kept_runs import train_parts
from real_tables import QM9
from torchsims.sweeps import find_runs

TRIALS = 20
TOX21 = (
    *("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma"),
    *("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
)
METHODS = (
    *("ew", "sims", "logmerit", "famo", "fixed", "gls", "uw", "stch", "stch:normalize=yes", "foops"),
    *("mgda", "pcgrad", "cagrad", "nashmtl", "fairgrad", "dbmtl", "gradnorm"),
    *("ldcmtl", "slaw", "go4align", "uwso", "imtll", "dwa", "rlw", "chebyshev", "pbi"),
)


@dataclass(frozen=True)
class Data:
    """A data set: its settings on the command line, and whether methods are tuned on it."""

    name: str
    settings: tuple[str, ...]
    tuned: bool = True


DATA = (
    Data("tox21", ("--data", "table", "--csv", "data/tox21.parquet", "--targets", ",".join(TOX21), "--types", "class")),
    Data(
        "hillstrom",
        (
            *("--data", "table", "--csv", "data/hillstrom.csv.gz", "--targets", "visit,conversion,spend"),
            *("--types", "class,class,number", "--batch", "1024"),
        ),
    ),
    Data("qm9", ("--data", "table", "--csv", "data/qm9.parquet", "--targets", ",".join(QM9))),
    Data("clicks", ("--data", "aliccp")),
    Data("multimnist", ("--data", "multimnist:images=6000", "--root", "data/mnist"), tuned=False),
    Data("scenes", ("--data", "scenes"), tuned=False),
)
EPOCHS = {"tox21": 10, "hillstrom": 5, "qm9": 10, "clicks": 3, "multimnist": 5, "scenes": 8}


@dataclass(frozen=True)
class Part:
    """One method on one data set."""

    data: Data
    method: str

    @property
    def name(self) -> str:
        return f"{self.data.name}/{self.method.replace(':', '_')}"

    def command(self, out: Path) -> list[str]:
        """Return the command that trains the runs, or resumes it."""
        budget = ["--seeds", "5", "--tune", str(TRIALS)] if self.data.tuned else ["--seeds", "3"]
        words = ["torchsims", "compare", *self.data.settings, "--methods", self.method, *budget]
        words += ["--epochs", str(EPOCHS[self.data.name]), "--select", "best"]
        return [*words, "--threads", "1", "--jobs", "1", "--out", str(out), "--resume"]


def parts() -> Iterator[Part]:
    """Yield all parts: the cheap data sets first, and on each the methods that are asked for most."""
    for data in DATA:
        for method in METHODS:
            if data.tuned or method != "fixed":  # without tuning it is EW
                yield Part(data, method)


def keep(out: Path, kept: Path) -> None:
    """Write what the runs in a folder measured, without their histories."""
    runs = [
        {
            "label": run.label,
            "tuned": run.config.tag == "tuned",
            "method": run.config.method,
            "lr": run.config.lr,
            "seed": run.seed,
            "passes": run.passes,
            "selected": run.selected,
            "higher_is_better": run.higher_is_better,
            "metrics": run.metrics,
            "failure": run.failure,
            "seconds": round(sum(run.seconds.values()), 1),
        }
        for run in find_runs([out])
    ]
    report = json.loads((out / "results.json").read_text())
    values = {"command": report["command"], "versions": report["versions"], "seconds": report["seconds"], "runs": runs}
    kept.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    train_parts((__doc__ or "").splitlines()[0], "ranking", parts(), keep)
