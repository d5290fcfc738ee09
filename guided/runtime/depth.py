"""Room for searches that nest as deeply as a schema does.

How deeply calls may nest is a setting of the process and no matter of ours, and compiled code has
no such bound at all: it nests on the stack of its thread until the process ends. So what nests
counts its calls, and continues on the stack of another thread before that of one is used up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, Generic, TypeVar

from guided.errors import LimitExceededError

__all__ = ["MAX_CALLS", "Nesting"]

MAX_CALLS: Final = 20_000
"""Calls inside of one another, on all stacks together: a thousand values inside of one another."""
CALLS_OF_A_STACK: Final = 400
"""Calls on the stack of one thread. An interpreter allows 1,000, those of our caller among them;
compiled, they take some 50 KiB."""

_Result = TypeVar("_Result")


class Nesting:
    """Counts the calls of one search that are inside of one another."""

    def __init__(self) -> None:
        self.calls = 0

    def within(self, calls: int, act: Callable[[], _Result]) -> _Result:
        """What ``act`` returns; it nests at most ``calls`` calls before it calls this again.

        Raises LimitExceededError past MAX_CALLS.
        """
        before = self.calls
        if before + calls > MAX_CALLS:
            raise _too_deep()
        self.calls += calls
        try:
            # A stack of our own begins with each multiple of CALLS_OF_A_STACK, so it holds fewer
            # than that and ``calls`` together.
            if before // CALLS_OF_A_STACK == self.calls // CALLS_OF_A_STACK:
                return act()
            return _on_new_stack(act)
        finally:
            self.calls = before


class _Outcome(Generic[_Result]):
    """What comes of an act; on another thread, which has the context variables of this one."""

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
    """What ``act`` returns or raises, called by a thread that is waited for."""
    outcome = _Outcome(act)
    thread = threading.Thread(target=outcome.find, name="guided-depth", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # somebody wants to end: not before what both work on is left alone
        thread.join()
        raise
    if outcome.raised:
        raise outcome.raised[0]
    return outcome.returned[0]


def _too_deep() -> LimitExceededError:
    """A schema whose parts stand too deeply inside of one another."""
    return LimitExceededError(
        "the schema nests too deeply",
        limit=MAX_CALLS,
        field="constraint",
        hint="put fewer required values, and fewer references, inside of one another",
    )
