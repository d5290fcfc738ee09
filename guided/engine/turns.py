"""Turns by client for work in slices: a client that brings much work delays only its own.

::

    line     a1 a2 b1 a3 c1      a slice of a1
             b1 c1 a2 a3 a1      a slice of b1
             c1 a2 a3 a1 b1      and so on
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["HasClient", "move_client_to_end"]


class HasClient(Protocol):
    """Something that waits for its turn."""

    @property
    def client(self) -> str:
        """The client that brought it."""


T = TypeVar("T", bound=HasClient)


def move_client_to_end(queue: Iterable[T], client: str) -> list[T]:
    """Return the queue after a client's turn: its entries come last, in their order."""
    return sorted(queue, key=lambda each: each.client == client)
