"""What a closure may return: every accepted form reads alike, every other is refused with the task in the sentence."""

import re
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from torchsims.losses import TaskLosses, read


def scalar(value: float, *, grad: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(value, dtype=dtype, requires_grad=grad)


class Pair(NamedTuple):
    """A named tuple is a sequence like any other."""

    seg: Tensor
    depth: Tensor


ONE_TWO: list[Any] = [
    pytest.param({"depth": scalar(1.0), "seg": scalar(2.0)}, id="mapping"),
    pytest.param({"seg": scalar(2.0), "depth": scalar(1.0)}, id="mapping-unsorted"),
    pytest.param(OrderedDict(seg=scalar(2.0), depth=scalar(1.0)), id="ordered-mapping"),
    pytest.param([scalar(1.0), scalar(2.0)], id="list"),
    pytest.param((scalar(1.0), scalar(2.0)), id="pair-of-scalars"),
    pytest.param(Pair(scalar(1.0), scalar(2.0)), id="named-tuple"),
    pytest.param([torch.tensor([1.0]), torch.tensor([[2.0]])], id="one-element-each"),
    pytest.param(torch.tensor([1.0, 2.0]), id="tensor"),
    pytest.param(TaskLosses([scalar(1.0), scalar(2.0)], [1, 1]), id="task-losses"),
    pytest.param(TaskLosses((scalar(1.0), scalar(2.0)), (1, 1)), id="task-losses-tuples"),
    pytest.param(TaskLosses(torch.tensor([1.0, 2.0]), torch.ones(2)), id="task-losses-tensors"),
    pytest.param(TaskLosses(torch.tensor([1.0, 2.0]), [1, 1]), id="task-losses-mixed"),
    pytest.param(
        TaskLosses({"seg": scalar(2.0), "depth": scalar(1.0)}, {"depth": 1, "seg": 1}), id="task-losses-mappings"
    ),
]


@pytest.mark.parametrize("output", ONE_TWO)
def test_every_accepted_form_reads_alike(output: Any) -> None:
    reading = read(output)
    assert reading.named == (reading.names == ("depth", "seg"))
    assert reading.named or reading.names == ("0", "1")
    assert torch.equal(reading.total, torch.tensor([1.0, 2.0]))
    assert torch.equal(reading.count, torch.ones(2))
    assert reading.scalars == (not isinstance(output, TaskLosses))
    assert reading.constant == reading.names
    assert reading.aux is None


@pytest.mark.parametrize("output", ONE_TWO)
@pytest.mark.parametrize("aux", ["features", None, {"a": 1}, torch.ones(2), torch.ones(()), (1, 2)], ids=repr)
def test_a_pair_of_losses_and_anything_else_carries_it(output: Any, aux: Any) -> None:
    reading = read((output, aux))
    assert reading.aux is aux
    assert torch.equal(reading.total, torch.tensor([1.0, 2.0]))


def test_losses_by_name_are_sorted_and_their_counts_follow() -> None:
    reading = read(
        TaskLosses(
            total={"b": scalar(2.0), "c": scalar(3.0), "a": scalar(1.0)},
            count={"c": 30, "a": torch.tensor(10), "b": 20},
        )
    )
    assert reading.names == ("a", "b", "c")
    assert torch.equal(reading.total, torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(reading.count, torch.tensor([10.0, 20.0, 30.0]))


# --- Pairs that could mean two things ---------------------------------------------------------------------------------


def test_two_scalars_are_two_losses() -> None:
    assert read((scalar(1.0), scalar(2.0))).names == ("0", "1")


def test_a_vector_and_a_scalar_are_losses_and_something_else() -> None:
    reading = read((torch.tensor([1.0, 2.0]), scalar(3.0)))
    assert reading.names == ("0", "1")
    assert reading.aux == 3.0


def test_three_scalars_in_a_tuple_are_three_losses() -> None:
    assert read((scalar(1.0), scalar(2.0), scalar(3.0))).names == ("0", "1", "2")


def test_two_vectors_are_losses_and_something_else() -> None:
    reading = read((torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])))
    assert torch.equal(reading.total, torch.tensor([1.0, 2.0]))
    assert torch.equal(reading.aux, torch.tensor([3.0, 4.0]))


def test_two_task_losses_are_losses_and_something_else() -> None:
    first, second = TaskLosses([scalar(1.0)], [1]), TaskLosses([scalar(2.0)], [1])
    assert read((first, second)).aux is second


@pytest.mark.parametrize(
    "second", [torch.ones(1), torch.ones(()), torch.ones(1, 1)], ids=["vector", "scalar", "matrix"]
)
def test_a_pair_of_one_element_tensors_is_refused_as_ambiguous(second: Tensor) -> None:
    with pytest.raises(ValueError, match=re.escape(f"Found shapes [(1,), {tuple(second.shape)}].")):
        read((torch.ones(1), second))


def test_one_loss_in_a_vector_may_come_with_something_that_is_no_loss() -> None:
    assert read((torch.ones(1), "features")).aux == "features"
    assert read(([torch.ones(1)], torch.ones(1))).names == ("0",)


def test_a_scalar_and_something_else_is_refused_by_the_name_of_the_second() -> None:
    with pytest.raises(TypeError, match=re.escape("The loss of task `1` should be a tensor. Found dict.")):
        read((scalar(1.0), {"features": 1}))
    with pytest.raises(ValueError, match=re.escape("The loss of task `1` should be a scalar. Found shape (3,).")):
        read((scalar(1.0), torch.ones(3)))


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "error", "sentence"),
    [
        (None, TypeError, "`TaskLosses`. Found NoneType."),
        (1.0, TypeError, "`TaskLosses`. Found float."),
        ("seg", TypeError, "`TaskLosses`. Found str."),
        ({1, 2}, TypeError, "`TaskLosses`. Found set."),
        (scalar(1.0), ValueError, "A tensor of losses should have one dimension. Found shape ()."),
        (torch.ones(2, 1), ValueError, "A tensor of losses should have one dimension. Found shape (2, 1)."),
        ({}, ValueError, "at least one loss. Found none."),
        ([], ValueError, "at least one loss. Found none."),
        (torch.ones(0), ValueError, "at least one loss. Found none."),
        (({}, "features"), ValueError, "at least one loss. Found none."),
        ({"seg": 1.0}, TypeError, "The loss of task `seg` should be a tensor. Found float."),
        ([scalar(1.0), None], TypeError, "The loss of task `1` should be a tensor. Found NoneType."),
        ({"seg": torch.ones(2)}, ValueError, "The loss of task `seg` should be a scalar. Found shape (2,)."),
        ([scalar(1.0), torch.ones(0)], ValueError, "The loss of task `1` should be a scalar. Found shape (0,)."),
        ({0: scalar(1.0)}, TypeError, "The name of a task should be a string. Found 0."),
        ({"seg": scalar(1.0), 7: scalar(1.0)}, TypeError, "The name of a task should be a string. Found 7."),
    ],
)
def test_anything_else_is_refused_by_name(output: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        read(output)


@pytest.mark.parametrize(
    ("total", "count", "error", "sentence"),
    [
        ({"a": scalar(1.0)}, [1], ValueError, "should both be mappings or both be sequences."),
        ([scalar(1.0)], {"a": 1}, ValueError, "should both be mappings or both be sequences."),
        ({"a": scalar(1.0)}, {"b": 1}, ValueError, "should name the same tasks. Found ['a'] and ['b']."),
        ([scalar(1.0)], [1, 2], ValueError, "should have the same length. Found 1 and 2."),
        (torch.ones(2), torch.ones(3), ValueError, "should have the same length. Found 2 and 3."),
        (torch.ones(2), 5, TypeError, "Parameter `count` should be a mapping, a sequence or a tensor. Found int."),
        (5.0, [1], TypeError, "Parameter `total` should be a mapping, a sequence or a tensor. Found float."),
        (torch.ones(()), [1], ValueError, "Parameter `total` should have one dimension. Found shape ()."),
        (
            torch.ones(2),
            torch.ones(2, 1),
            ValueError,
            "Parameter `count` should have one dimension. Found shape (2, 1).",
        ),
    ],
)
def test_totals_and_counts_that_do_not_fit_are_refused_at_construction(
    total: Any, count: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        TaskLosses(total, count)


def test_a_count_of_several_numbers_is_refused_by_name() -> None:
    losses = TaskLosses({"seg": scalar(1.0)}, {"seg": torch.ones(2)})
    with pytest.raises(ValueError, match=re.escape("The count of task `seg` should be one number. Found shape (2,).")):
        read(losses)


# --- Counts, means, precision, gradients ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "count",
    [
        [3, 4],
        [3.0, 4.0],
        [torch.tensor(3), 4],
        [torch.tensor([3]), torch.tensor(4.0, requires_grad=True)],
        (torch.tensor(3, dtype=torch.int32), torch.tensor(4, dtype=torch.float64)),
        torch.tensor([3, 4]),
        torch.tensor([3.0, 4.0], requires_grad=True),
    ],
    ids=repr,
)
def test_counts_may_be_numbers_or_tensors_of_any_type(count: Any) -> None:
    reading = read(TaskLosses([scalar(6.0, grad=True), scalar(2.0, grad=True)], count))
    assert torch.equal(reading.count, torch.tensor([3.0, 4.0]))
    assert reading.count.dtype == reading.total.dtype
    assert not reading.count.requires_grad


def test_the_mean_is_total_over_count_and_nan_without_labels() -> None:
    mean = TaskLosses({"a": scalar(6.0), "b": scalar(0.0)}, {"a": 3, "b": 0}).mean()
    assert mean["a"] == 2.0
    assert mean["b"].isnan()


def test_any_split_of_a_batch_adds_up_to_the_batch() -> None:
    errors = torch.rand(10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parts = [read(TaskLosses([part.sum()], [len(part)])) for part in (errors[:1], errors[1:3], errors[3:])]
    whole = torch.stack([part.total for part in parts]).sum(0) / torch.stack([part.count for part in parts]).sum(0)
    torch.testing.assert_close(whole, errors.mean().reshape(1))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_promoted_and_higher_precision_kept(half: torch.dtype) -> None:
    assert read([scalar(1.0, dtype=half), scalar(2.0, dtype=half)]).total.dtype == torch.float32
    assert read(torch.ones(2, dtype=half)).total.dtype == torch.float32
    assert read([scalar(1.0, dtype=half), scalar(2.0)]).total.dtype == torch.float32
    assert read([scalar(1.0, dtype=half), scalar(2.0, dtype=torch.float64)]).total.dtype == torch.float64
    assert read(torch.ones(2, dtype=torch.int64)).total.dtype == torch.float32
    counted = read(TaskLosses(torch.ones(2, dtype=half), torch.tensor([100_000, 1])))
    assert torch.equal(counted.count, torch.tensor([100_000.0, 1.0]))  # counts above 65504 do not fit in float16


def test_the_tasks_that_depend_on_no_parameter_are_named() -> None:
    reading = read({"b": scalar(1.0), "a": scalar(1.0, grad=True), "c": scalar(1.0)})
    assert reading.constant == ("b", "c")
    assert read(torch.ones(2, requires_grad=True)).constant == ()
    assert read(torch.ones(2)).constant == ("0", "1")
    assert read(TaskLosses([scalar(1.0, grad=True), scalar(1.0)], [1, 1])).constant == ("1",)


def test_gradients_reach_every_loss() -> None:
    parameter = torch.tensor(3.0, requires_grad=True)
    for output in ({"a": parameter, "b": 2 * parameter}, torch.stack([parameter, 2 * parameter])):
        (gradient,) = torch.autograd.grad(read(output).total.sum(), parameter)
        assert gradient == 3.0
    assert not read({"a": parameter}).count.requires_grad
