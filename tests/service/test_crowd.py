"""A crowd of clients: all are served, in fair shares, with the default settings.

``GUIDED_TESTS=long`` has 2,000 requests of 50 clients; the short form a fifth of the clients.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from tests.kit.effort import is_long
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_metrics import scraped

CLIENTS, REQUESTS = (50, 40) if is_long() else (10, 40)
GREEDY = 5 * REQUESTS
"""The number of requests of the first client, before any other makes one."""
SECONDS = 120.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
"""Each channel has its own connection, and nothing is sent twice."""


def test_a_crowd_is_served_in_fair_shares(tmp_path: Path) -> None:
    with serving(ECHO_SERVER, tmp_path / "log", {"metrics_port": "0"}) as server:
        order = asyncio.run(_crowd(server))
    assert Counter(order) == {0: GREEDY} | dict.fromkeys(range(1, CLIENTS), REQUESTS)
    # While all of them have requests left, each has had the same number, within a tenth.
    shared = Counter(order[: CLIENTS * REQUESTS // 2])
    fair = REQUESTS / 2
    assert 0.9 * fair <= min(shared[client] for client in range(CLIENTS))
    assert max(shared.values()) <= 1.1 * fair


async def _crowd(server: ServerProcess) -> list[int]:
    """The clients in the order in which they got their answers."""
    order: list[int] = []

    async def ask(stub: Any, client: int, number: int) -> None:
        asked = pb.GenerateRequest(text=f"{client}-{number}", max_tokens=20)
        answer = await stub.Generate(asked, timeout=SECONDS)
        assert answer.text == asked.text
        order.append(client)

    channels = [grpc.aio.insecure_channel(server.address, options=OPTIONS) for _ in range(CLIENTS)]
    stubs: list[Any] = [GenerationServiceStub(channel) for channel in channels]
    async with asyncio.TaskGroup() as calls:
        with _full(server):
            for client, stub in enumerate(stubs):
                for number in range(REQUESTS if client else GREEDY):
                    calls.create_task(ask(stub, client, number))
            while _queued(server) < (CLIENTS - 1) * REQUESTS + GREEDY:
                await asyncio.sleep(0.1)
    for channel in channels:
        await channel.close()
    return order


@contextmanager
def _full(server: ServerProcess) -> Iterator[None]:
    """Take every place of the server for the block, so that all other requests have to wait."""
    channels = [grpc.insecure_channel(server.address, options=OPTIONS) for _ in range(2)]
    asked = pb.GenerateStreamRequest(request=pb.GenerateRequest(text="wait", max_tokens=10**6))
    streams = [GenerationServiceStub(one).GenerateStream(asked) for one in channels * 32]
    for stream in streams:
        next(iter(stream))
    yield
    for channel in channels:
        channel.close()


def _queued(server: ServerProcess) -> float:
    return scraped(server)["guided_requests_queued",]
