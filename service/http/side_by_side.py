"""Answers several prompts of one call side by side, each as a request with a place of its own.

::

    prompts ──▶ a place each ──▶ the engine ──▶ results, in order ──▶ one body, or a stream's end
                                    └─ text as it grows ──▶ events, as they come
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

__all__ = ["OneAtATime", "all_or_none"]

T = TypeVar("T")


async def all_or_none(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of works that run side by side; raises the first error of any.

    Then the others are cancelled, as they are if this is.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class OneAtATime:
    """Sends pieces of a stream one after another, whoever makes them."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._lock = asyncio.Lock()

    async def __call__(self, piece: bytes) -> None:
        async with self._lock:
            await self._send(piece)
