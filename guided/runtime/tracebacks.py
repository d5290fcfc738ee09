"""Lets go of what the tracebacks of errors refer to: all local variables on their way."""

from __future__ import annotations

from collections.abc import Iterator
from traceback import clear_frames

__all__ = ["clear_locals", "drop_tracebacks"]


def clear_locals(error: BaseException) -> None:
    """Clear the local variables of the frames that an error and its causes have passed.

    Frames that still run keep theirs. Lines and names stay, so the traceback can be logged as
    before.
    """
    for each in _chain_of(error):
        clear_frames(each.__traceback__)


def drop_tracebacks(error: BaseException) -> None:
    """Take the tracebacks from an error and those that it was raised from.

    What was only being handled when it was raised keeps its own: it may be the caller's.
    """
    cause: BaseException | None = error
    while cause is not None and cause.__traceback__ is not None:
        cause.__traceback__ = None
        cause = cause.__cause__


def _chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised from or beside, each once."""
    seen: set[int] = set()
    worklist: list[BaseException | None] = [error]
    while worklist:
        each = worklist.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            worklist += each.__cause__, each.__context__
