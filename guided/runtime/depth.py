"""Room for searches that nest as deeply as a schema does.

How deeply calls may nest is a setting of the process, which we do not change. Compiled code has no
such bound at all: it nests until the stack of its thread overflows and the process dies. So a
nested search counts its calls, and continues on the stack of another thread before the current one
is full.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, Generic, TypeVar

from guided.errors import LimitExceededError

__all__ = ["MAX_CALLS", "Nesting"]

MAX_CALLS: Final = 20_000
"""How many calls may be nested, on all stacks together: enough for a thousand nested values."""
CALLS_OF_A_STACK: Final = 400
"""Calls on the stack of one thread. An interpreter allows 1,000, including those of our caller;
compiled, they take about 50 KiB."""

_Result = TypeVar("_Result")


class Nesting:
    """Counts the nested calls of one search."""

    def __init__(self) -> None:
        self.calls = 0

    def within(self, calls: int, act: Callable[[], _Result]) -> _Result:
        """Return what ``act`` returns; it nests at most ``calls`` calls before it calls this again.

        Raises LimitExceededError past MAX_CALLS.
        """
        before = self.calls
        if before + calls > MAX_CALLS:
            raise _too_deep()
        self.calls += calls
        try:
            # A new stack of ours begins at each multiple of CALLS_OF_A_STACK, so one stack holds
            # fewer than that plus ``calls``.
            if before // CALLS_OF_A_STACK == self.calls // CALLS_OF_A_STACK:
                return act()
            return _on_new_stack(act)
        finally:
            self.calls = before


class _Outcome(Generic[_Result]):
    """The outcome of an act on another thread, which gets this thread's context variables."""

    def __init__(self, act: Callable[[], _Result]) -> None:
        self.act = act
        self.context = copy_context()
        self.returned: list[_Result] = []
        self.raised: list[BaseException] = []

    def find(self) -> None:
        try:
            self.returned.append(self.context.run(self.act))
        except BaseException as error:
            self.raised.append(error)


def _on_new_stack(act: Callable[[], _Result]) -> _Result:
    """Return or raise what ``act`` does; another thread calls it while this one waits."""
    outcome = _Outcome(act)
    thread = threading.Thread(target=outcome.find, name="guided-depth", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # an interrupt: it must not leave before the other thread is done
        thread.join()
        raise
    if outcome.raised:
        raise outcome.raised[0]
    return outcome.returned[0]


def _too_deep() -> LimitExceededError:
    """Return the error for a schema whose parts are nested too deeply."""
    return LimitExceededError(
        "the schema nests too deeply",
        limit=MAX_CALLS,
        field="constraint",
        hint="put fewer required values, and fewer references, inside of one another",
    )
