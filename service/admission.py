"""A limit on requests in flight. Further ones are refused and told to come again, not queued."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from guided.errors import ServiceUnavailableError

__all__ = ["Admission", "OverloadedError"]


class OverloadedError(ServiceUnavailableError):
    """The server has as many requests in flight as it takes."""


class Admission:
    """Places for requests in flight."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def in_flight(self) -> int:
        """Requests that hold a place."""
        return self._taken

    @contextmanager
    def admitted(self, requests: int) -> Iterator[None]:
        """Hold a place for each request; raises ``OverloadedError`` where there are too few."""
        if self._taken + requests > self._places:
            raise OverloadedError(
                f"{self._taken} requests are in flight and {requests} more came, "
                f"above the limit of {self._places}",
                hint="try again shortly",
            )
        self._change(requests)
        try:
            yield
        finally:
            self._change(-requests)

    async def wait_until_empty(self) -> None:
        """Wait until no request is in flight."""
        await self._empty.wait()

    def _change(self, requests: int) -> None:
        self._taken += requests
        if self._taken:
            self._empty.clear()
        else:
            self._empty.set()
