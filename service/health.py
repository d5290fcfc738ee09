"""The standard health service, which any number of watchers may neither fill nor hold up.

The servicer of grpcio-health-checking keeps a lock while it writes to a watcher, so one that reads
nothing keeps it from ever saying anything else, and it takes watchers without a bound.
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
"""Watchers of one connection; there are but two names to watch."""

_States = pb.HealthCheckResponse


class HealthServicer(HealthService):
    """Says which services take requests, now and whenever that changes."""

    def __init__(self, most_watchers: int) -> None:
        self._most_watchers = most_watchers
        self._states: dict[str, Any] = {}
        self._is_final = False
        self._watchers: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @override
    async def Check(self, request: pb.HealthCheckRequest, context: Context) -> Any:
        """Say whether a service takes requests."""
        state = self._states.get(request.service)
        if state is None:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:100]!r}"
            )
        return _States(status=state)

    @override
    async def Watch(self, request: pb.HealthCheckRequest, context: Context) -> None:
        """Say so now, and again after each change."""
        peer = context.peer()
        if (
            self._watchers.total() >= self._most_watchers
            or self._watchers[peer] >= _OF_ONE_CONNECTION
        ):
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"as many calls watch the health as are taken: {self._most_watchers}, "
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
        """Whether the server as a whole is said to take requests."""
        return bool(self._states.get("") == _States.SERVING)

    async def set(self, states: dict[str, Any]) -> None:
        """Change what is said of these services, unless the server is stopping."""
        if not self._is_final:
            self._set(states)

    async def stop_serving(self) -> None:
        """Say for good that no service takes requests."""
        self._is_final = True
        self._set(dict.fromkeys(self._states, _States.NOT_SERVING))

    def _set(self, states: dict[str, Any]) -> None:
        self._states |= states
        # Whoever waits is woken, and the next change has an event of its own.
        self._changed.set()
        self._changed = asyncio.Event()

    async def _tell(self, service: str, context: Context) -> None:
        said = None
        while True:
            changed, state = self._changed, self._states.get(service, _States.SERVICE_UNKNOWN)
            if state != said:
                # One who reads slowly misses what was said in between, and holds nobody up.
                await context.write(_States(status=state))
                said = state
            await changed.wait()
