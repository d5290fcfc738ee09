"""A request's turn in the engine counts from its place, its deadline from when it came."""

from __future__ import annotations

import asyncio
import time

import pytest

from guided.spec import GenerationRequest
from guided_service.config import ServerConfig
from guided_service.door import Admitted, Door

_WAIT_SECONDS = 0.05


async def admitted_late(request: GenerationRequest, received: float) -> Admitted:
    """A request that finds the only place taken when it comes."""
    door = Door(ServerConfig(max_requests_in_flight=1, max_batch_size=1))
    first, second = door.stranger("one"), door.stranger("another")

    async def wait() -> Admitted:
        async with door.admitted(second, request, 1, received) as admitted:
            return admitted

    async with door.admitted(first, GenerationRequest("x"), 1, received):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(_WAIT_SECONDS)
        assert door.admission.waiting == 1
    return await waiting


def test_the_turn_counts_from_the_place_and_the_deadline_from_the_arrival() -> None:
    received = time.monotonic()
    admitted = asyncio.run(admitted_late(GenerationRequest("x", deadline=60.0), received))
    assert admitted.received >= received + _WAIT_SECONDS
    assert admitted.request.deadline is not None
    assert admitted.received + admitted.request.deadline == pytest.approx(received + 60.0)


def test_a_deadline_that_passes_with_the_place_is_left_to_the_engine() -> None:
    received = time.monotonic() - 120.0
    admitted = asyncio.run(admitted_late(GenerationRequest("x", deadline=60.0), received))
    assert admitted.request.deadline == pytest.approx(1e-3)


def test_who_has_no_deadline_has_none_later() -> None:
    admitted = asyncio.run(admitted_late(GenerationRequest("x"), time.monotonic()))
    assert admitted.request.deadline is None
