"""The function ``diagnose``: measures a few batches and sums them up."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from torch import Generator, Tensor, nn

from torchsims.diagnosis._advice import find
from torchsims.diagnosis._outputs import Outputs, merge, read_outputs
from torchsims.diagnosis._result import Diagnosis
from torchsims.diagnosis._summary import log_slopes, sum_up
from torchsims.steppers.probe import BatchGradients, GradientProbe

__all__ = ["diagnose"]


def diagnose(
    model: nn.Module,
    task_losses: Callable[..., Any],
    batches: Iterable[Any],
    *,
    max_batches: int = 8,
    micro_batches: int = 1,
    shared: Sequence[str] | None = None,
    generators: Sequence[Any] = (),
    process_group: Any = None,
) -> Diagnosis:
    r"""Return what is wrong with the losses and gradients of a model, if anything is.

    .. math::
        \lVert g_i \rVert, \qquad \cos(g_i, g_j), \qquad g_i = \nabla_\theta L_i

    - :math:`\theta`: the parameters that tasks share, as :class:`torchsims.Aggregated` finds them;
    - :math:`L_i`: the loss of task i on a batch, over all its micro-batches and ranks.

    It costs one forward and m backward passes per batch. Parameters, buffers, ``.grad``, optimizers and random
    generators are as before, and the model stays in the mode that it is in. Batches, losses and gradients of several
    ranks are one batch, as in a step; a batch has to be split alike in all ranks.

    If the closure returns a pair of the losses and a mapping from tasks to ``(prediction, target)``, as the loss
    compares them and with NaN where a target is not known, it also tells which labels are missing and whether
    predictions can reach the targets at all: the last operation of a network bounds them if it is a sigmoid, a ReLU or
    alike. Anything else beside the losses is ignored.

    Args:
        model: a module, plain or inside `DistributedDataParallel`.
        task_losses: the closure, as in a step: called as ``task_losses(model, batch)``, it returns the losses.
        batches: a data loader, or any other collection of batches.
        max_batches: how many of them to look at, at most.
        micro_batches: how many of ``batches`` make up one batch of a step.
        shared: names of modules or parameters, if not all that tasks share.
        generators: random generators of your own that the closure or the data draw from; those of the model and of a
            `DataLoader` and the global ones need not be given.
        process_group: the ranks that share a batch; those of the wrapper, or else all of them, by default.

    Example:
        >>> import torch
        >>> import torchsims
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        >>> def task_losses(model, x):
        ...     metres, pixels = (model(x) - x[:, :2]).square().mean(0)
        ...     return {"metres": metres, "pixels": 1e6 * pixels}
        >>> diagnosis = torchsims.diagnose(model, task_losses, [torch.randn(32, 4) for _ in range(4)])
        >>> [finding.kind for finding in diagnosis.findings]
        ['dominates', 'dropped']
        >>> print(diagnosis.advice[1])  # doctest: +ELLIPSIS
        A sum of the losses would drop `metres`: its gradient is ... of the lengths of all gradients...
    """
    _check(batches, max_batches, micro_batches)
    held = [getattr(part, "generator", None) for part in (batches, getattr(batches, "sampler", None))]
    own = [each for each in held if isinstance(each, Generator)]
    probe = GradientProbe(model, shared=shared, generators=[*generators, *own], process_group=process_group)
    found: list[BatchGradients] = []
    outputs: dict[str, list[Outputs]] = {}
    with probe:
        for parts in _batches(batches, micro_batches, max_batches, probe):
            measured = probe.measure(task_losses, *parts)
            for task, each in _read(measured, probe).items():
                outputs.setdefault(task, []).append(each)
            found.append(replace(measured, aux=()))
    result = sum_up(found, {task: merge(each) for task, each in outputs.items()}, probe.sizes)
    return replace(result, findings=tuple(find(result, log_slopes(found))))


def _check(batches: Any, max_batches: int, micro_batches: int) -> None:
    for name, value in (("max_batches", max_batches), ("micro_batches", micro_batches)):
        if not value > 0:
            raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
    if isinstance(batches, Mapping | Tensor | str) or not isinstance(batches, Iterable):
        raise TypeError(
            f"Parameter `batches` should be a collection of batches. Found a {type(batches).__name__}: "
            "if it is one batch, put it into a list."
        )


def _batches(batches: Iterable[Any], parts: int, most: int, probe: GradientProbe) -> Iterator[list[Any]]:
    """Yield the batches, each as a list of its micro-batches; every rank has as many."""
    left, count = iter(batches), 0
    while count < most:
        batch = list(islice(left, parts))
        if len(set(probe.gather(len(batch)))) > 1:
            raise ValueError("Parameter `batches` should have the same length on every rank. Found others.")
        if not batch:
            break
        if len(batch) < parts:
            raise ValueError(
                f"Parameter `batches` should hold a multiple of {parts} micro-batches. "
                f"Found {count * parts + len(batch)}."
            )
        count += 1
        yield batch
    if not count:
        raise ValueError("Parameter `batches` should hold a batch. Found none.")


def _read(measured: BatchGradients, probe: GradientProbe) -> dict[str, Outputs]:
    """Return the outputs of a batch over its micro-batches and ranks, by task."""
    mine = [read_outputs(aux, measured.tasks) for aux in measured.aux]
    everywhere = [each for rank in probe.gather(mine) for each in rank]
    return {
        task: merge([each[task] for each in everywhere if task in each])
        for task in measured.tasks
        if any(task in each for each in everywhere)
    }
