"""Fig. 1 of the paper: which methods depend on the scale of the losses, and which reach the front.

    torchsims reproduce trajectories --out runs/trajectories

Toy problem, scalings 1 : 0.1 and 0.1 : 1, five starts; Adam with rate 1e-3 for both copies, stop at 0.05 of the front.
The distance is measured in unscaled losses, so that the stop does not depend on the scaling.
"""

from dataclasses import asdict

from torchsims.experiments.settings import TrajectoriesSettings as Settings
from torchsims.reporting import Progress, Report
from torchsims.synthetic.checks import check_settings
from torchsims.synthetic.figures import plot_trajectories
from torchsims.synthetic.methods import FIXED, METHODS, SCALES, offset, run_toy, scaled_runs, toy
from torchsims.synthetic.tables import trajectory_rows, trajectory_summary


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_settings(settings, {"methods": METHODS})
    toy(settings.variant)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all methods from all starts under both scalings."""
    scale, starts = scaled_runs(settings.starts)
    outcomes = run_toy(settings, starts, scale, offset(settings.seed), record_every=25, progress=progress)
    return Report(
        title="Trajectories under two scalings of the losses",
        command="torchsims reproduce trajectories",
        settings=asdict(settings) | FIXED,
        rows=trajectory_rows(outcomes, scale, starts),
        details={"Summary": trajectory_summary(outcomes)},
        figures={"trajectories": plot_trajectories(toy(settings.variant).front(), outcomes, SCALES)},
        notes=[
            "Front grey, starts black, ends as stars; a red ring marks a run that did not reach the front.",
            "The gap is the largest difference between the ends of the two scalings, over starts and losses.",
            "Passes are those of a step, forward + backward.",
        ],
    )
