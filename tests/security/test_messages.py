"""A short form of ``tests.kit.fuzz_service``: no message and no constraint gets INTERNAL."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import grpc
import pytest

from tests.kit.effort import first_seed, is_long, times
from tests.kit.fuzz_service import Call, grown, hostile_calls, mutated_calls, try_calls
from tests.service.server_process import ServerProcess


@pytest.mark.parametrize(
    ("draw", "count"), [(mutated_calls, times(800)), (hostile_calls, times(80))]
)
def test_every_call_gets_a_status_that_says_why(
    tiny_server: ServerProcess, draw: Callable[[random.Random], Iterator[Call]], count: int
) -> None:
    outcome = try_calls(tiny_server, draw(random.Random(first_seed())), count, 10.0)
    assert not outcome.faults, str(outcome)
    assert sum(outcome.told.values()) == count
    for code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT):
        assert sum(told for (_, said), told in outcome.told.items() if said is code)
    # Few calls leave caches half empty, which then fill up.
    assert not (is_long() and grown(outcome)), str(outcome)
