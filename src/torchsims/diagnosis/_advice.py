"""Which numbers of a diagnosis stand out, and what helps."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from statistics import median_high, median_low

from torchsims.diagnosis._result import Diagnosis, Finding

__all__ = ["find"]

DOMINATES = 0.9  # share of one task in the lengths of all gradients
DROPPED = 0.05  # of an equal share
CHASED = 20.0  # times the median gradient of the other logarithms: 95 % of a step for two tasks
NEAR_ZERO = 1.0  # gradient of a logarithm by all parameters: a loss that small steps make many times smaller
FAR = 0.1  # the same, where small steps change the loss by little
CONFLICT = -0.2  # mean cosine
MISSING = 0.5  # share of labels
NOISY = 1.0  # standard deviation over the batches, relative to the loss
STUCK = 1e-6  # gradient by all parameters, relative to the loss
OUTSIDE = 0.01  # share of targets that no prediction can be equal to


def find(diagnosis: Diagnosis, slopes: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what stands out; ``slopes`` are the gradients by all parameters relative to the losses, by task."""
    stuck = [task for task, slope in slopes.items() if slope < STUCK and diagnosis.loss[task] != 0]
    for task in stuck:
        loss = diagnosis.loss[task]
        yield Finding(
            "stuck",
            (task,),
            f"The loss of `{task}`, {loss:.3g}, hardly depends on any parameter: its gradient is "
            f"{slopes[task] * abs(loss):.2g}. Is its output saturated, clamped or rounded?",
        )
    yield from _unreachable(diagnosis)
    several = len(diagnosis.tasks) > 1 and not all(map(isnan, diagnosis.loss.values()))
    if several and diagnosis.shared == 0:
        sentence = "No parameter is shared by two tasks: they neither help nor disturb each other."
        yield Finding("nothing shared", diagnosis.tasks, sentence)
    elif several:
        yield from _sum(diagnosis, stuck)
        yield from _logarithm(diagnosis, slopes)
        yield from _conflicts(diagnosis)
    yield from _not_positive(diagnosis)
    yield from _labels(diagnosis)
    yield from _noise(diagnosis)


def _sum(diagnosis: Diagnosis, stuck: Sequence[str]) -> Iterator[Finding]:
    """Find the task that a sum of the losses follows, and those that it drops."""
    share = {task: value for task, value in diagnosis.share.items() if not isnan(value)}
    if len(share) < 2:
        return
    first, equal = max(share, key=lambda task: share[task]), 1 / len(share)
    if share[first] > DOMINATES:
        yield Finding(
            "dominates",
            (first,),
            f"A sum of the losses would train `{first}` almost alone: its gradient, {diagnosis.gradient[first]:.3g}, "
            f"is {_percent(share[first])} of the lengths of all gradients.",
        )
    lost = [task for task, loss in diagnosis.loss.items() if loss == 0]  # no method learns from them
    dropped = [task for task in share if share[task] < DROPPED * equal and task not in (*stuck, *lost)]
    if dropped:
        sizes = ", ".join(_percent(share[task]) for task in dropped)
        subject = "its gradient is" if len(dropped) == 1 else "their gradients are"
        yield Finding(
            "dropped",
            tuple(dropped),
            f"A sum of the losses would drop {_names(dropped)}: {subject} {sizes} of the lengths of all gradients, "
            f"where an equal share is {_percent(equal)}. Methods that do not depend on units, such as SIMS and "
            "LogMerit, train all tasks.",
        )


def _logarithm(diagnosis: Diagnosis, slopes: Mapping[str, float]) -> Iterator[Finding]:
    """Find tasks that take over a sum of logarithms, with a loss near zero, and those that it hardly moves."""
    share = {task: value for task, value in diagnosis.log_share.items() if value > 0}
    for task, value in share.items():
        others = [share[other] for other in share if other != task]
        if others and value > CHASED * median_high(others) and slopes[task] > NEAR_ZERO:
            yield Finding(
                "chased",
                (task,),
                f"A sum of logarithms would chase `{task}` towards zero: its loss is {diagnosis.loss[task]:.3g}, and "
                f"the gradient of its logarithm is {_percent(value)} of all. A floor, `FlooredLog(0.03)` for SIMS or "
                "`LogMerit(floor=0.03)`, stops that in any unit.",
            )
        elif others and value < median_low(others) / CHASED and slopes[task] < FAR:
            yield Finding(
                "far",
                (task,),
                f"Even a sum of logarithms would hardly train `{task}`: its loss is {diagnosis.loss[task]:.3g}, and "
                f"the gradient of its logarithm is {_percent(value)} of all.{_ranges(diagnosis, task)} Are its targets "
                "far from its predictions? Predict them in standard units.",
            )


def _ranges(diagnosis: Diagnosis, task: str) -> str:
    each = diagnosis.outputs.get(task)
    if each is None:
        return ""
    targets = f"its targets from {each.target_low:.3g} to {each.target_high:.3g}"
    return f" Its predictions go from {each.low:.3g} to {each.high:.3g}, {targets}."


def _conflicts(diagnosis: Diagnosis) -> Iterator[Finding]:
    found = {(a, b): diagnosis.cosines[a][b] for a, b in diagnosis.pairs() if diagnosis.cosines[a][b] < CONFLICT}
    if not found:
        return
    (a, b), cosine = min(found.items(), key=lambda item: item[1])
    layers = {title: matrix[a][b] for title, matrix in diagnosis.layers.items() if not isnan(matrix[a][b])}
    layer = min(layers, key=lambda title: layers[title])
    more = f" {len(found)} pairs are below {CONFLICT}." if len(found) > 1 else ""
    yield Finding(
        "conflict",
        tuple(dict.fromkeys(task for pair in found for task in pair)),
        f"The gradients of `{a}` and `{b}` point against each other: their mean cosine is {cosine:.2f}, in `{layer}` "
        f"{layers[layer]:.2f}.{more} Gradient-level methods such as PCGrad or MGDA are made for that, and layers of "
        "their own help these tasks.",
    )


def _not_positive(diagnosis: Diagnosis) -> Iterator[Finding]:
    for task, loss in diagnosis.smallest.items():
        if loss <= 0:
            yield Finding(
                "not positive",
                (task,),
                f"The loss of `{task}` is {loss:.3g} in a batch, and logarithms need losses above zero: count labels "
                "in `TaskLosses` if it is zero where they are missing, give a `floor` if it can reach zero, or "
                "`lower_bounds` if it can be negative.",
            )


def _labels(diagnosis: Diagnosis) -> Iterator[Finding]:
    for task in diagnosis.tasks:
        share, empty = diagnosis.missing[task], diagnosis.unlabelled[task]
        if share > MISSING or empty:
            lacks = "" if isnan(share) else f"lacks {_percent(share)} of its labels"
            without = f"has no label in {empty} of {diagnosis.batches} batches" if empty else ""
            yield Finding(
                "missing",
                (task,),
                f"Task `{task}` {' and '.join(filter(None, (lacks, without)))}. Larger batches, or several "
                "micro-batches per step, make its loss reliable. Without labels it should have a count of zero, not a "
                "loss of zero.",
            )


def _noise(diagnosis: Diagnosis) -> Iterator[Finding]:
    for task, spread in diagnosis.spread.items():
        if spread > NOISY * abs(diagnosis.loss[task]):
            yield Finding(
                "noisy",
                (task,),
                f"The loss of `{task}` is {diagnosis.loss[task]:.3g} with a standard deviation of {spread:.3g} over "
                f"{diagnosis.batches} batches: look for outliers, or take larger batches.",
            )


def _unreachable(diagnosis: Diagnosis) -> Iterator[Finding]:
    for task, each in diagnosis.outputs.items():
        if each.outside > OUTSIDE:
            yield Finding(
                "unreachable",
                (task,),
                f"The predictions of `{task}` end in `{each.operation}`, between {each.lower:g} and {each.upper:g}, "
                f"and {_percent(each.outside)} of its targets, from {each.target_low:.3g} to {each.target_high:.3g}, "
                "lie outside. Unless the loss rescales them, remove the operation or scale the targets.",
            )


def _names(tasks: Sequence[str]) -> str:
    return ", ".join(f"`{task}`" for task in tasks)


def _percent(share: float) -> str:
    """Return a share in percent; one of almost everything with as many digits as tell."""
    return f"{100 * share:{'.6g' if share > 0.99 else '.2g'}} %"
