"""Recursion that is not bounded by the stack of one thread.

Some searches recurse as deeply as a schema nests. How deeply calls may nest is a setting of the
process, which we do not change. Compiled code has no such bound at all: it recurses until the stack
of its thread overflows and the process dies. So such a search counts its nested calls, and
continues on the stack of another thread before the current one is full.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, Generic, TypeVar

from guided.errors import LimitExceededError

__all__ = ["MAX_CALLS", "NestedCalls", "call_on_new_stack"]

MAX_CALLS: Final = 20_000
"""How many calls may be nested, on all stacks together: enough for a thousand nested values."""
CALLS_PER_STACK: Final = 400
"""Calls on the stack of one thread. An interpreter allows 1,000, including those of our caller;
compiled, they take about 50 KiB."""

_Result = TypeVar("_Result")


class NestedCalls:
    """Counts the nested calls of one recursive search, and bounds them."""

    def __init__(self) -> None:
        self.count = 0

    def call(self, most_calls: int, function: Callable[[], _Result]) -> _Result:
        """Return what ``function`` returns; raises LimitExceededError past MAX_CALLS.

        The function may nest ``most_calls`` calls before it calls this method again.
        """
        before = self.count
        if before + most_calls > MAX_CALLS:
            raise _too_deep_error()
        self.count += most_calls
        try:
            # A new stack of ours begins at each multiple of CALLS_PER_STACK, so one stack holds
            # fewer than that plus ``most_calls``.
            if before // CALLS_PER_STACK == self.count // CALLS_PER_STACK:
                return function()
            return call_on_new_stack(function)
        finally:
            self.count = before


class _ThreadCall(Generic[_Result]):
    """A call on another thread, with this thread's context variables, and its outcome."""

    def __init__(self, function: Callable[[], _Result]) -> None:
        self.function = function
        self.context = copy_context()
        self.returned: list[_Result] = []
        self.raised: list[BaseException] = []

    def run(self) -> None:
        try:
            self.returned.append(self.context.run(self.function))
        except BaseException as error:
            self.raised.append(error)


def call_on_new_stack(function: Callable[[], _Result]) -> _Result:
    """Return or raise what ``function`` does; another thread calls it while this one waits."""
    call = _ThreadCall(function)
    thread = threading.Thread(target=call.run, name="guided-depth", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # an interrupt: it must not leave before the other thread is done
        thread.join()
        raise
    if call.raised:
        raise call.raised[0]
    return call.returned[0]


def _too_deep_error() -> LimitExceededError:
    """Return the error for a schema whose parts are nested too deeply."""
    return LimitExceededError(
        "the schema nests too deeply",
        limit=MAX_CALLS,
        field="constraint",
        hint="put fewer required values, and fewer references, inside of one another",
    )
