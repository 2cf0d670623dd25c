"""Where a fan of preferences ends, for methods that take one, on problems that know their front: not in the paper.

    torchsims reproduce fronts --out runs/fronts

ZDT1 to ZDT3, two squared distances with floors of 0.5, 0.05 and 0.005, and the toy problem, each from all of its
starts; preferences in equal ratios; the losses as they are, and the first one times 1000. Adam, double precision.
"""

from dataclasses import asdict

from torchsims.experiments.settings import FrontsSettings as Settings
from torchsims.reporting import Progress, Report
from torchsims.synthetic.checks import check_settings
from torchsims.synthetic.figures import plot_fans
from torchsims.synthetic.fronts import FIXED, METHODS, PROBLEMS, fan, fan_row, run_fan


def check(settings: Settings) -> None:
    """Raise an error if a setting is invalid."""
    check_settings(settings, {"methods": METHODS, "problems": PROBLEMS})
    for name, least in (("points", 2), ("spread", 1)):
        if not (value := getattr(settings, name)) >= least:
            raise ValueError(f"Parameter `{name}` should be at least {least}. Found `{name} = {value}`.")


def run(settings: Settings, progress: Progress) -> Report:
    """Run all methods on all problems."""
    preferences = fan(settings.points, settings.spread)
    advance = progress("problems x methods", len(settings.problems) * len(settings.methods))
    fronts, ends = {name: PROBLEMS[name]().front() for name in settings.problems}, {}
    for problem in settings.problems:
        for method in settings.methods:
            found = run_fan(PROBLEMS[problem](), method, preferences, tau=settings.tau, steps=settings.steps)
            ends[problem, method] = found
            advance(1)
    return Report(
        title="Where preferences end",
        command="torchsims reproduce fronts",
        settings=asdict(settings) | FIXED,
        rows=[fan_row(*pair, fronts[pair[0]], found) for pair, found in ends.items()],
        figures={"fronts": plot_fans(fronts, ends)},
        notes=[
            "Volume: hypervolume over that of the front, mean over the starts. Reversed: pairs of neighbouring "
            "preferences where more of it for a task ends with a larger loss of that task. Moved: the largest distance "
            "between a point and the same one with the first loss times 1000, in ranges of the front.",
        ],
    )
