"""Interrupts at chosen bytecodes: what Ctrl-C does when it comes between any two instructions of Python."""

import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torchsims import Stepper

Place: TypeAlias = tuple[CodeType, int]
"""A bytecode: its code object and its offset in it."""
Watch: TypeAlias = Callable[[CodeType], bool]


@dataclass(frozen=True)
class Case:
    """What is interrupted.

    Attributes:
        prepare: makes what is acted upon; always the same.
        act: does what is interrupted.
        look: returns all that may change, to be compared.
        known: what else may be found, by name.
    """

    prepare: Callable[[], Any]
    act: Callable[[Any], Any]
    look: Callable[[Any], Any]
    known: Mapping[str, Any] = field(default_factory=dict)


def look(method: Stepper[Any]) -> list[Any]:
    """Return all that a step may change, in a form that can be compared."""
    found = [
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        [len(module._forward_hooks) for module in method.model.modules()],
    ]
    found += [method.model.training, torch.get_rng_state().numpy().tobytes()]
    return found + contents([method.model.state_dict(), method.state_dict()])


def contents(value: Any) -> list[Any]:
    """Return what nested containers hold, in one list, and tensors as bytes."""
    if isinstance(value, dict | list | tuple):
        return [found for each in (value.values() if isinstance(value, dict) else value) for found in contents(each)]
    return [value.numpy().tobytes() if isinstance(value, Tensor) else value]


def in_package(code: CodeType) -> bool:
    """Whether code belongs to this package, or to the context managers it uses."""
    return "torchsims/" in code.co_filename or "contextlib" in code.co_filename


def cannot_raise(code: CodeType) -> bool:
    """Whether Python drops what the code raises: it is called when an object dies."""
    callbacks = "weakref" in code.co_filename or "WeakKeyDictionary" in code.co_qualname
    return code.co_name == "__del__" or (callbacks and code.co_name in ("<lambda>", "remove", "_remove", "_remove_id"))


def in_libraries(code: CodeType) -> bool:
    """Whether code belongs to this package, to torch, or to the standard library."""
    return "/tests/" not in code.co_filename


def interrupt_everywhere(case: Case, watch: Watch = in_package) -> Counter[str]:
    """Interrupt an action at every bytecode that it reaches, once each, and count how it was left."""
    places = _count(case, watch)
    return _interrupt(case, [(place, 1) for place in places])


def interrupt_anywhere(case: Case, count: int, seed: int = 0, watch: Watch = in_libraries) -> Counter[str]:
    """Interrupt an action as often as ``count`` says, at random bytecodes of any package, and count how it was left."""
    places = _count(case, watch)
    draw = random.Random(seed)
    drawn = draw.choices(list(places), list(places.values()), k=count)
    return _interrupt(case, [(place, draw.randint(1, places[place])) for place in drawn])


def _interrupt(case: Case, targets: list[tuple[Place, int]]) -> Counter[str]:
    """Return how often everything was as before, as after, and, which should not be, something else."""
    subject = case.prepare()
    before = case.look(subject)
    case.act(subject)
    known = {"before": before, "after": case.look(subject), **case.known}
    outcomes: Counter[str] = Counter()
    fresh = False
    for (code, offset), times in targets:
        if not fresh:
            subject = case.prepare()
        reached = _act_until(partial(case.act, subject), code, offset, times)
        found = case.look(subject)
        fresh = reached and found == before  # what is as before can be used again
        place = f"{code.co_filename.rpartition('/')[2]}, {code.co_qualname}, bytecode {offset}"
        outcome = next((name for name, state in known.items() if state == found), place)
        outcomes[outcome if reached else "not reached"] += 1
    return outcomes


def _count(case: Case, watch: Watch) -> Counter[Place]:
    """Return how often an action reaches each bytecode."""
    places: Counter[Place] = Counter()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            places[frame.f_code, frame.f_lasti] += 1
        return local

    _trace(partial(case.act, case.prepare()), watch, local)
    return places


def _act_until(act: Callable[[], Any], code: CodeType, offset: int, times: int) -> bool:
    """Act until a bytecode is about to run for the given time, and raise KeyboardInterrupt; return whether it was."""
    left = times

    def local(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if event == "opcode" and frame.f_lasti == offset:
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return local

    with suppress(KeyboardInterrupt):
        _trace(act, lambda each: each is code, local)
    return left == 0


def _trace(act: Callable[[], Any], watch: Watch, local: Callable[[FrameType, str, Any], Any]) -> None:
    """Act, and call a function before every bytecode of the watched code."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not watch(frame.f_code) or cannot_raise(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return local

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(previous)
