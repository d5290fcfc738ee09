"""A bound on the work for a constraint, counted rather than timed, so that it is repeatable.

What is built for one goes through many small functions, and all of them draw on one tank.
It is held in a context variable, so work in different threads does not share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from guided.errors import LimitExceededError

__all__ = ["limited_work", "spend"]


class _Tank:
    __slots__ = ("left", "limit", "purpose")

    def __init__(self, limit: int, purpose: str) -> None:
        self.left = self.limit = limit
        self.purpose = purpose


_tank: ContextVar[_Tank | None] = ContextVar("tank", default=None)


@contextmanager
def limited_work(limit: int, purpose: str = "compiling") -> Iterator[None]:
    """Let the block spend at most ``limit`` units, each about a microsecond.

    The block raises LimitExceededError, which names its ``purpose``, when it would spend more.
    """
    token = _tank.set(_Tank(limit, purpose))
    try:
        yield
    finally:
        _tank.reset(token)


def spend(units: int) -> None:
    """Draw on the tank; outside of ``limited_work`` nothing is counted."""
    tank = _tank.get()
    if tank is None:
        return
    tank.left -= units
    if tank.left < 0:
        raise LimitExceededError(
            f"{tank.purpose} takes more than {tank.limit} units of work",
            limit=tank.limit,
            field="constraint",
            hint="simplify the patterns, lower the bounds of repeats, or list fewer alternatives",
        )
