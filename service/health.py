"""The standard health service, which no number of watchers can exhaust or block.

The servicer of grpcio-health-checking holds a lock while it writes to a watcher, so a watcher that
reads nothing blocks all others, and it takes watchers without a bound.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import grpc
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1.health_pb2_grpc import HealthServicer as HealthService
from typing_extensions import override

from guided_service.status import Context

__all__ = ["HealthServicer"]

_OF_ONE_CONNECTION = 8
"""Watchers allowed per connection; there are only two names to watch."""

_States = pb.HealthCheckResponse


class HealthServicer(HealthService):
    """Reports which services take requests, now and whenever that changes."""

    def __init__(self, service: str, most_watchers: int) -> None:
        """Report on the server as a whole and on one service, which takes no requests yet."""
        self._most_watchers = most_watchers
        self._states: dict[str, Any] = dict.fromkeys(("", service), _States.NOT_SERVING)
        self._is_final = False
        self._watchers: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @override
    async def Check(self, request: pb.HealthCheckRequest, context: Context) -> Any:
        state = self._states.get(request.service)
        if state is None:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:100]!r}"
            )
        return _States(status=state)

    @override
    async def Watch(self, request: pb.HealthCheckRequest, context: Context) -> None:
        peer = context.peer()
        if (
            self._watchers.total() >= self._most_watchers
            or self._watchers[peer] >= _OF_ONE_CONNECTION
        ):
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"too many calls watch the health: at most {self._most_watchers} may, and "
                f"{_OF_ONE_CONNECTION} of one connection",
            )
        self._watchers[peer] += 1
        try:
            await self._tell(request.service, context)
        finally:
            self._watchers[peer] -= 1
            if not self._watchers[peer]:
                del self._watchers[peer]

    def is_serving(self) -> bool:
        """Whether the server as a whole is reported as taking requests."""
        return bool(self._states.get("") == _States.SERVING)

    async def set_serving(self, is_serving: bool) -> None:
        """Report whether requests are taken, unless the server is stopping."""
        if not self._is_final:
            self._set(_States.SERVING if is_serving else _States.NOT_SERVING)

    async def stop_serving(self) -> None:
        """Report from now on that no service takes requests."""
        self._is_final = True
        self._set(_States.NOT_SERVING)

    def _set(self, state: Any) -> None:
        self._states = dict.fromkeys(self._states, state)
        # Wakes all that wait; the next change gets a new event.
        self._changed.set()
        self._changed = asyncio.Event()

    async def _tell(self, service: str, context: Context) -> None:
        said = None
        while True:
            changed, state = self._changed, self._states.get(service, _States.SERVICE_UNKNOWN)
            if state != said:
                # A slow reader misses the states in between and delays nobody.
                await context.write(_States(status=state))
                said = state
            await changed.wait()
