"""The runs of a front, and their report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import dist, log
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs
from torchsims.fronts.points import find_balanced, find_reversals, to_minimise
from torchsims.fronts.preferences import preference_grid
from torchsims.methods import Method
from torchsims.metrics import hypervolume, non_dominated
from torchsims.registry import Spec, option_text
from torchsims.reporting import FrontPanel, Report, Row, plot_front, runs_table
from torchsims.sweeps import Comparison, folder_name
from torchsims.training import FrontConfig, Run, RunConfig

with needs("experiments"):
    import moocore  # noqa: F401  # missed now, and not after the last model is trained

Points: TypeAlias = NDArray[np.float64]
"""One row per point, one column per task."""
BALANCED = "balanced"
MARGIN = 0.1  # of the reference point beyond the worst number, as a share of the range
_PICTURES = {"predictions": "An image of the test split: the labels, then what the model of each point predicts."}
_PLANE = {"front": "One dot per model, with the number of its point. The chosen one has a ring.", **_PICTURES}
_LINES = {
    "front": "One line per model, from the worst number of any point at the bottom to the best one at the top. "
    "The chosen one is thick.",
    **_PICTURES,
}


def check_choice(choose: str, points: int) -> None:
    """Raise an error unless a choice is ``balanced`` or the number of a point, from 1.

    Example:
        >>> check_choice("7", 5)
        Traceback (most recent call last):
        ValueError: Parameter `choose` should be balanced or the number of a point, 1 to 5. Found `choose = 7`.
    """
    if choose != BALANCED and not (choose.isdecimal() and 1 <= int(choose) <= points):
        raise ValueError(
            f"Parameter `choose` should be {BALANCED} or the number of a point, 1 to {points}. "
            f"Found `choose = {choose}`."
        )


def front_comparison(config: RunConfig, chosen: FrontConfig, tasks: Sequence[str], out: Path) -> Comparison:
    """Return the runs of a front and what becomes of their report; ``out`` is the folder that they are trained in.

    Every point is an ordinary run with a preference. With ``warm_epochs`` all but the first go on from the nearest one
    before, with its first losses as reference: otherwise preferences of two points would not mean the same.

    Example:
        >>> from torchsims.training import complete_config
        >>> chosen = FrontConfig(points=3, spread=4.0)
        >>> plan = front_comparison(complete_config({"method": "logmerit"}), chosen, ["a", "b"], Path("runs/front"))
        >>> [config.prefer for config in plan.configs]
        [{'a': 2.0, 'b': 0.5}, {'a': 1.0, 'b': 1.0}, {'a': 0.5, 'b': 2.0}]
    """
    if config.prefer:
        raise ValueError(
            f"Parameter `prefer` should be empty, for every point of a front has its own. Found {dict(config.prefer)}."
        )
    preferences = preference_grid(tasks, chosen.points, chosen.spread)
    check_choice(chosen.choose, len(preferences))
    configs = [_with_preference(config, each) for each in preferences]
    for i in range(1, len(configs)) if chosen.warm_epochs else ():
        logs = [[log(p) for p in each.values()] for each in preferences[: i + 1]]
        near = min(range(i - 1, -1, -1), key=lambda j: round(dist(logs[i], logs[j]), 9))
        start = str(out / "runs" / folder_name(configs[near]))
        configs[i] = replace(configs[i], epochs=chosen.warm_epochs, start=start)
    return Comparison(
        f"Models along the front of {Spec.parse(config.data).name}",
        tuple(configs),
        None,  # points of a front are no rivals
        finish=_finish(preferences, chosen),
        in_order=chosen.warm_epochs > 0,
        labels=tuple(f"point {i + 1}" for i in range(len(configs))),
    )


def _with_preference(config: RunConfig, preference: Mapping[str, float]) -> RunConfig:
    """Return the configuration of a point; a method with a number per task, and no preference, has these numbers."""
    method = Method(config.method)
    if not method.by_task:
        return replace(config, prefer=dict(preference))
    numbers = {task: option_text(p) for task, p in preference.items()}
    return replace(config, method=str(Spec(method.name, {**Spec.parse(config.method).options, **numbers})))


def _finish(
    preferences: Sequence[Mapping[str, float]], chosen: FrontConfig
) -> Callable[[Report, Sequence[Run]], Report]:
    def finish(report: Report, runs: Sequence[Run]) -> Report:
        tasks, validated = list(preferences[0]), any(run.history.validation for run in runs)
        test, training = to_minimise(runs, tasks), to_minimise(runs, tasks, "train")
        panels = _panels(runs, tasks, test, training)
        decide = to_minimise(runs, tasks, "val") if validated else training.copy()
        decide[np.isnan(test).any(1)] = np.nan  # runs that failed
        index = find_balanced(decide) if chosen.choose == BALANCED else int(chosen.choose) - 1
        return replace(
            report,
            settings={**report.settings, "points": len(runs), "spread": chosen.spread, "choose": chosen.choose},
            rows=_rows(preferences, runs, non_dominated(decide), index),
            details={"Training losses of the last epoch": _losses(tasks, training), **_without_runs(report)},
            figures={"front": plot_front(panels, index), **report.figures},
            captions={**report.captions, **(_PLANE if len(tasks) == 2 else _LINES)},
            notes=[
                f"Chosen: point {index + 1}, {_why(chosen, validated)}. `torchsims predict` of this folder predicts "
                "with it; the name of its run is in chosen.txt.",
                "On the front: no other point is at least as good for every task, and better for one, "
                + ("on the validation split." if validated else "by its training losses."),
                _volume_note(panels[0]),
                _order_note(preferences, training),
                *report.notes,
            ],
        )

    return finish


def _why(chosen: FrontConfig, validated: bool) -> str:
    if chosen.choose != BALANCED:
        return "by its number"
    by = "the validation split" if validated else "the training losses, for there is no validation split"
    return f"the most balanced by {by}: its worst task is nearest to the best of that task"


def _rows(
    preferences: Sequence[Mapping[str, float]], runs: Sequence[Run], front: NDArray[np.bool_], chosen: int
) -> list[Row]:
    metrics = [{k: v for k, v in row.items() if k not in ("method", "seed")} for row in runs_table(runs)]
    return [
        {
            "point": i + 1,
            **{f"prefer {task}": p for task, p in preference.items()},
            **numbers,
            "on the front": bool(on),
            "chosen": i == chosen,
        }
        for i, (preference, numbers, on) in enumerate(zip(preferences, metrics, front, strict=True))
    ]


def _without_runs(report: Report) -> dict[str, Sequence[Row]]:
    """Return the further tables without those that repeat others: a point is one run."""
    return {name: rows for name, rows in report.details.items() if name not in ("Runs", "Means after the last epoch")}


def _losses(tasks: Sequence[str], losses: Points) -> list[Row]:
    return [{"point": i + 1, **dict(zip(tasks, row, strict=True))} for i, row in enumerate(losses.tolist())]


def _panels(runs: Sequence[Run], tasks: Sequence[str], test: Points, training: Points) -> list[FrontPanel]:
    first = [next(iter(runs[0].higher_is_better[task].items())) for task in tasks]
    names, higher = (
        [f"{task} {metric}" for task, (metric, _) in zip(tasks, first, strict=True)],
        [up for _, up in first],
    )
    return [
        FrontPanel("Test split", names, np.where(higher, -test, test), higher),
        FrontPanel("Mean training loss of the last epoch", tasks, training, [False] * len(tasks)),
    ]


def _volume_note(panel: FrontPanel) -> str:
    sign = np.where(panel.higher, -1.0, 1.0)
    points = sign * panel.values
    known = points[~np.isnan(points).any(1)]
    best, worst = known.min(0), known.max(0)
    if len(known) < 2 or not (worst > best).all():
        return "Hypervolume: none, for the points do not differ in every task."
    reference = worst + MARGIN * (worst - best)
    share = hypervolume(known, reference.tolist(), best.tolist())
    ends = ", ".join(f"{name} {end:.4g}" for name, end in zip(panel.names, sign * reference, strict=True))
    return (
        f"Hypervolume of the test metrics: {share:.4f} of the box from the best numbers to the reference ({ends}), "
        "a tenth of the range beyond the worst. Compare it with fronts in the same box only."
    )


def _order_note(preferences: Sequence[Mapping[str, float]], training: Points) -> str:
    found, compared = find_reversals(preferences, training)
    if not compared:
        return "No two points differ in the preference of one task alone."
    pairs = "".join(f"; points {i + 1} and {j + 1}" for i, j in dict.fromkeys(found))
    return (
        f"More preference for a task went with a larger training loss of it in {len(found)} of {compared} cases{pairs}."
    )


def choice_text(report: Report, configs: Sequence[RunConfig]) -> str:
    """Return what ``chosen.txt`` holds: the name of the run of the chosen point.

    Example:
        >>> report = Report("Front", "", {}, [{"point": 1, "chosen": False}, {"point": 2, "chosen": True}])
        >>> choice_text(report, [RunConfig(prefer={"a": 2.0}), RunConfig(prefer={"b": 2.0})])
        '_sims_prefer_b=2_seed=0'
    """
    index = [bool(row["chosen"]) for row in report.rows].index(True)
    return folder_name(configs[index])
