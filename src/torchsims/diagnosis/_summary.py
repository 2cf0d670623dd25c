"""Numbers of several batches as one diagnosis."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from torchsims.diagnosis._geometry import cosines, cosines_with_sum, layer_groups, mean_known, norms, shares, total
from torchsims.diagnosis._outputs import Outputs
from torchsims.diagnosis._result import Diagnosis, Matrix
from torchsims.steppers.probe import BatchGradients

__all__ = ["log_slopes", "sum_up"]


def sum_up(found: Sequence[BatchGradients], outputs: Mapping[str, Outputs], sizes: Mapping[str, int]) -> Diagnosis:
    tasks = found[0].tasks
    losses = torch.stack([each.losses for each in found])  # (batch, task)
    counts = torch.stack([each.counts for each in found])
    gramians = [total(each.shared.values(), len(tasks)) for each in found]
    length = mean_known([norms(gramian) for gramian in gramians])
    spread = [column[~column.isnan()].std().item() if (~column.isnan()).sum() > 1 else torch.nan for column in losses.T]
    names = list(dict.fromkeys(name for each in found for name in each.shared))

    def by_task(values: Tensor | Sequence[float]) -> dict[str, float]:
        return dict(zip(tasks, values.tolist() if isinstance(values, Tensor) else values, strict=True))

    def matrix(values: Tensor) -> Matrix:
        return dict(zip(tasks, map(by_task, values), strict=True))

    return Diagnosis(
        batches=len(found),
        shared=sum(sizes[name] for name in names),
        loss=by_task((losses * counts).nansum(0) / counts.sum(0)),
        spread=by_task(spread),
        smallest=by_task(losses.nan_to_num(torch.inf).amin(0).nan_to_num(posinf=torch.nan)),
        gradient=by_task(length),
        share=by_task(shares(length)),
        log_share=by_task(shares(_log_lengths(losses, gramians))),
        aligned=by_task(mean_known([cosines_with_sum(gramian) for gramian in gramians])),
        missing=_missing(tasks, counts.sum(0), outputs, all(each.counted for each in found)),
        unlabelled=dict(zip(tasks, losses.isnan().sum(0).tolist(), strict=True)),
        cosines=matrix(mean_known([cosines(gramian) for gramian in gramians])),
        layers={
            title: matrix(
                mean_known([cosines(total([e.shared[n] for n in group if n in e.shared], len(tasks))) for e in found])
            )
            for title, group in layer_groups(names).items()
        },
        outputs={task: each.range for task, each in outputs.items() if each.range is not None},
    )


def _log_lengths(losses: Tensor, gramians: Sequence[Tensor]) -> Tensor:
    """Return the lengths of the gradients of the logarithms, `m`; NaN for a task that has a loss without one."""
    lengths = mean_known([norms(gramian) / loss for gramian, loss in zip(gramians, losses, strict=True)])
    return lengths.where(~(losses <= 0).any(0), torch.nan)


def log_slopes(found: Sequence[BatchGradients]) -> dict[str, float]:
    """Return the gradient by all parameters relative to the loss, by task: how much it can still change."""
    slopes = [
        (norms(total(e.shared.values(), len(e.tasks))).nan_to_num().square() + e.own).sqrt() / e.losses.abs()
        for e in found
    ]
    return dict(zip(found[0].tasks, mean_known(slopes).tolist(), strict=True))


def _missing(tasks: Sequence[str], counts: Tensor, outputs: Mapping[str, Outputs], counted: bool) -> dict[str, float]:
    if not counted:
        return dict.fromkeys(tasks, torch.nan)
    most = counts.max().item()
    result = {}
    for task, count in zip(tasks, counts.tolist(), strict=True):
        known = outputs.get(task)
        places = most if known is None else known.places if count <= known.places else known.elements
        result[task] = max(0.0, 1 - count / places) if places else torch.nan
    return result
