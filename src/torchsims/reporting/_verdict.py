r"""Which method is best, by how much against the spread over seeds, and at what cost: data first, then two sentences.

The best method is the one with the best mean score. It is compared with every other one seed by seed:

.. math::
    \bar d \pm t_{n-1} \frac{s_d}{\sqrt n}

- :math:`d_1, \dots, d_n`: how much better the best method scores with each of the seeds that both have;
- :math:`\bar d, s_d`: their mean and sample standard deviation;
- :math:`t_{n-1}`: the 97.5 % quantile of Student's distribution, so that the interval covers the true difference 95
  times in 100 if differences are normal.

The seeds show a difference if zero is outside of the interval; or if this holds for the first metric of most tasks, and
the opposite for none, because ranks of a few methods can hide that a task is lost altogether. A winner is named only if
it is better than each of the others in this sense; otherwise the methods that cannot be told from the best one are
named together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, log10, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from torchsims.reporting._runs import has_diverged
from torchsims.training.run import Run

if TYPE_CHECKING:  # metrics are imported by those who compute them
    from torchsims.reporting._scores import Score

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # of 1 to 10 degrees of freedom

MOST = 5  # methods that a sentence names


@dataclass(frozen=True)
class Rival:
    """A method beside the best one, and what the seeds show of the difference."""

    label: str
    behind: float  # mean difference of the scores over the seeds of both; of the means if they share none
    half_width: float | None  # of the 95 % interval; None with fewer than two seeds of both
    seeds: int  # that both have
    lost: Sequence[str] = ()  # tasks on which it is shown to be worse; most of them, and none on which it is better

    @property
    def shown(self) -> bool:
        """Whether the seeds can show that it is worse."""
        return self.by_score or len(self.lost) > 0

    @property
    def by_score(self) -> bool:
        """Whether the score alone shows it."""
        return self.half_width is not None and self.behind > self.half_width


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison.

    Example:
        >>> from torchsims.reporting._scores import Score
        >>> from torchsims.training import RunConfig
        >>> up = {"seg": {"miou": True}}
        >>> runs = [Run(name, RunConfig(), {"seg": {"miou": x}}, up) for name, x in (("EW", 0.5), ("SIMS", 0.6))]
        >>> find_verdict(runs, Score("Delta_b", True, {"EW": [0.0], "SIMS": [0.2]}), "EW").best
        'SIMS'
    """

    score: str  # name of the number that is compared
    higher_is_better: bool
    baseline: str
    best: str | None  # label with the best mean score; None if no method has numbers for all its runs
    value: float | None  # its mean score
    rivals: Sequence[Rival]  # all other methods with numbers, the nearest first
    failed: Mapping[str, str]  # methods that failed or diverged: with how many of their runs
    passes: Mapping[str, str]  # forward and backward passes per step, by label
    unit: str = "seeds"  # what a method has several of; runs, if they are on several splits

    @property
    def tied(self) -> list[str]:
        """The methods that the seeds cannot tell from the best one, which is the first of them."""
        return ([] if self.best is None else [self.best]) + [rival.label for rival in self.rivals if not rival.shown]

    @property
    def sentences(self) -> tuple[str, str]:
        """Who is best and by how much, then the cost, and who is left out."""
        return self._outcome(), self._cost()

    @property
    def explanation(self) -> str:
        """How to read the first sentence."""
        order = "higher" if self.higher_is_better else "lower"
        return (
            f"Compared by {self.score}, {order} is better. A difference is the mean over the {self.unit} that both "
            f"methods have ± half of its 95 % interval; the {self.unit} show it if zero is outside of the interval, or "
            "if that holds for most tasks, and the opposite for none."
        )

    def _outcome(self) -> str:
        if self.best is None or self.value is None:
            return f"No method has numbers for all of its {self.unit}, so that nothing can be compared."
        if not self.rivals:
            return (
                f"Only {self.best} has numbers for all of its {self.unit}, so that there is nothing to compare it with."
            )
        near = next((rival for rival in self.rivals if not rival.shown), self.rivals[0])
        digits = _decimals(near.behind, near.half_width)
        side = "above" if self.higher_is_better else "below"
        half = "" if near.half_width is None else f" ± {near.half_width:.{digits}f}"
        gap = f"{near.behind:.{digits}f}{half} {side} that of {near.label}"
        if near.half_width is None:
            one = self.unit.removesuffix("s")
            why = f"one {one} has" if near.seeds else f"without a common {one} there is"
            value = f"{self.best} has the best {self.score}, {self.value:.{digits}f}, {gap}"
            return f"{value}; {why} no spread, so that this may be chance."
        if len(self.tied) == 1:
            ahead = "" if near.by_score else f" and ahead of it on {_listed(near.lost)}"
            return (
                f"{self.best} is best: its {self.score} of {self.value:.{digits}f} is {gap}, the next best,{ahead} "
                f"with the same {near.seeds} {self.unit}."
            )
        rest = "; the other methods are behind it" if len(self.tied) <= len(self.rivals) else ""
        return (
            f"No difference that {near.seeds} {self.unit} can show between {_listed(self.tied)}: the best "
            f"{self.score}, {self.value:.{digits}f} of {self.best}, is {gap}{rest}."
        )

    def _cost(self) -> str:
        left_out = "; ".join(f"{label}, {runs}" for label, runs in self.failed.items())
        failed = f"not compared, because runs failed or diverged: {left_out}." if left_out else ""
        own = self.passes.get(self.best or "", "")
        if not own or not self.rivals:
            return failed[:1].upper() + failed[1:]
        others = [label for label in self.tied[1:] if self.passes.get(label)]
        cheapest = min([self.best or "", *others], key=lambda label: _work(self.passes[label]))
        compared = self.baseline if self.baseline in self.passes else self.rivals[0].label
        compared = self.rivals[0].label if compared == self.best else compared
        other = self.passes.get(compared, "")
        cost = f"{self.best} takes {own} forward+backward passes per step"
        if cheapest != self.best:
            cost += f", and {cheapest}, the cheapest of these, {self.passes[cheapest]}"
        elif other:
            cost += f", as {compared} does" if other == own else f", and {compared} takes {other}"
        return f"{cost}; {failed}" if failed else f"{cost}."


def find_verdict(runs: Sequence[Run], score: "Score", baseline: str) -> Verdict | None:
    """Return what runs say about their methods; None if there are fewer than two methods.

    A method with a run that failed, or whose metrics are not all finite, is not compared.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    if len(groups) < 2 or not score.values:
        return None
    unit = "seeds" if len({run.split for run in runs}) == 1 else "runs"
    failed = {
        label: f"{sum(map(has_diverged, group))} of {len(group)} {unit}"
        for label, group in groups.items()
        if any(map(has_diverged, group))
    }
    sign = 1.0 if score.higher_is_better else -1.0
    means = {label: fmean(score.values[label]) for label in groups if label not in failed}
    best = max(means, key=lambda label: sign * means[label], default=None)
    rivals = [] if best is None else [
        _compare(groups, score, label, best, sign) for label in means if label != best
    ]  # fmt: skip
    return Verdict(
        score=score.name,
        higher_is_better=score.higher_is_better,
        baseline=baseline,
        best=best,
        value=None if best is None else means[best],
        rivals=sorted(rivals, key=lambda rival: rival.behind),
        failed=failed,
        passes={label: group[0].passes for label, group in groups.items() if group[0].passes},
        unit=unit,
    )


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's distribution.

    Example:
        >>> student(2), round(student(30), 3)
        (4.303, 2.042)
    """
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    return 1.95996 + 2.37227 / freedom + 2.82250 / freedom**2 + 2.55585 / freedom**3  # Cornish and Fisher's series


def _compare(groups: Mapping[str, Sequence[Run]], score: "Score", label: str, best: str, sign: float) -> Rival:
    ours, theirs = (_by_seed(groups[name], score.values[name]) for name in (best, label))
    common = [seed for seed in ours if seed in theirs]
    ahead = [sign * (ours[seed] - theirs[seed]) for seed in common]
    if not ahead:
        return Rival(label, sign * (fmean(ours.values()) - fmean(theirs.values())), None, 0)
    half = student(len(ahead) - 1) * stdev(ahead) / sqrt(len(ahead)) if len(ahead) > 1 else None
    return Rival(
        label, fmean(ahead), half, len(ahead), _lost_tasks(groups[best], groups[label]) if half is not None else ()
    )


def _lost_tasks(best: Sequence[Run], rival: Sequence[Run]) -> list[str]:
    """Return the tasks on which a rival is shown to be worse than the best method; nothing unless they decide."""
    tasks = {task: next(iter(of.items())) for task, of in best[0].higher_is_better.items()}
    lost, won = [], []
    for task, (metric, up) in tasks.items():
        ours, theirs = (_by_seed(group, [run.metrics[task][metric] for run in group]) for group in (best, rival))
        ahead = [(ours[seed] - theirs[seed]) * (1 if up else -1) for seed in ours if seed in theirs]
        half = student(len(ahead) - 1) * stdev(ahead) / sqrt(len(ahead))
        lost += [task] if fmean(ahead) > half else []
        won += [task] if fmean(ahead) < -half else []
    return lost if 2 * len(lost) > len(tasks) and not won else []


def _by_seed(group: Sequence[Run], values: Sequence[float]) -> dict[tuple[int, int], float]:
    """Return the scores of a method by split and seed."""
    return {(run.split, run.seed): value for run, value in zip(group, values, strict=True)}


def _decimals(*numbers: float | None) -> int:
    """Return how many decimals show two digits of the smallest number that is not zero."""
    sizes = [abs(number) for number in numbers if number]
    return min(max(1 - floor(log10(min(sizes))), 2), 6) if sizes else 3


def _listed(labels: Sequence[str]) -> str:
    named = list(labels) if len(labels) <= MOST else [*labels[: MOST - 1], f"{len(labels) - MOST + 1} others"]
    between = "; " if any("," in label for label in named) else ", "
    return between.join(named[:-1]) + f" and {named[-1]}"


def _work(passes: str) -> float:
    """Return how long a step takes, a backward pass being twice a forward pass."""
    forward, _, backward = passes.replace(" ", "").partition("+")
    try:
        return float(forward) + 2 * float(backward)
    except ValueError:  # passes of older runs were sentences
        return inf
