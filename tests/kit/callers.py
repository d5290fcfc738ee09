"""Callers of every kind, each of which makes one call and returns its outcome."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import grpc.aio

from guided.client import Answer, AsyncClient
from guided.client.security import CHANNEL_OPTIONS
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    RequestError,
    ServiceUnavailableError,
)
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.wire_request import encode_request
from tests.kit.hostile_options import hostile_options
from tests.kit.nonces import Asked, MistoldError, draw_asked
from tests.kit.web_callers import (
    Web,
    web_dead_reader,
    web_hostile,
    web_leaver,
    web_plain,
    web_slow_reader,
    web_streamed,
)
from tests.service.http_server import HttpServer

__all__ = ["LOST_SECONDS", "Doors", "Tally", "call_once"]

_WEB_SHARE: Final = 1 / 3
"""The share of calls that go over HTTP."""

LOST_SECONDS: Final = 240.0
"""A caller that gets no answer for this long is lost."""


@dataclass
class Tally:
    """The outcomes of each kind of caller, and the faults among them."""

    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    """Most calls that were open at once."""
    open_streams: int = 0

    def count(self, outcome: str) -> int:
        """Calls of all kinds with this outcome."""
        return sum(number for (_, said), number in self.told.items() if said == outcome)


@dataclass(frozen=True)
class Doors:
    """A server's interfaces, with a client of each for some callers."""

    address: str
    client: AsyncClient
    web: Web

    @classmethod
    def of(cls, server: HttpServer) -> Doors:
        """New clients."""
        address = server.process.address
        return cls(address, AsyncClient(address), Web.of(server.url))

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()
        await self.web.client.aclose()


async def call_once(doors: Doors, rng: random.Random, tally: Tally, *, is_stream: bool) -> None:
    """Make one call of a random kind, among streams or among the others."""
    name, call = _drawn(doors, rng, is_stream=is_stream)
    tally.open += 1
    tally.open_streams += is_stream
    tally.most_open = max(tally.most_open, tally.open)
    try:
        async with asyncio.timeout(LOST_SECONDS):
            outcome = await call()
    except TimeoutError:
        outcome = "lost"
        tally.faults.append(f"{name}: told nothing for {LOST_SECONDS:g} s")
    except MistoldError as fault:
        outcome = "fault"
        tally.faults.append(f"{name}: {fault}")
    finally:
        tally.open -= 1
        tally.open_streams -= is_stream
    tally.told[name, outcome] += 1


def _drawn(
    doors: Doors, rng: random.Random, *, is_stream: bool
) -> tuple[str, Callable[[], Awaitable[str]]]:
    """The name of a random kind of caller, and a call of it."""
    if rng.random() < _WEB_SHARE:
        (web,) = rng.choices(*(_WEB_STREAMS if is_stream else _WEB_OTHERS))
        return web.__name__, partial(web, doors.web, rng)
    (kind,) = rng.choices(*(_STREAMS if is_stream else _OTHERS))
    return kind.__name__.strip("_"), partial(kind, doors, rng)


def _told(error: GuidedError, *expected: type[GuidedError]) -> str:
    """The name of an error that a caller may get, besides an unavailable server."""
    if not isinstance(error, (ServiceUnavailableError, *expected)):
        raise MistoldError(f"told {type(error).__name__}: {error}")
    return type(error).__name__


async def _plain(doors: Doors, rng: random.Random) -> str:
    asked = draw_asked(rng)
    try:
        return asked.checked((await doors.client.generate(asked.prompt, **asked.options)).text)
    except GuidedError as error:
        return _told(error)


async def _streamed(doors: Doors, rng: random.Random) -> str:
    return await _read(doors.client, draw_asked(rng), pause=0.0)


async def _slow_reader(doors: Doors, rng: random.Random) -> str:
    return await _read(doors.client, draw_asked(rng), pause=rng.choice([0.05, 0.2]))


async def _read(client: AsyncClient, asked: Asked, pause: float) -> str:
    try:
        async with client.stream(asked.prompt, **asked.options) as stream:
            pieces = []
            async for piece in stream:
                pieces.append(piece)
                await asyncio.sleep(pause)
        if "".join(pieces) != stream.answer.text:
            raise MistoldError(f"the pieces {pieces} are not the text {stream.answer.text!r}")
        return asked.checked(stream.answer.text)
    except GuidedError as error:
        return _told(error)


async def _leaver(doors: Doors, rng: random.Random) -> str:
    asked = draw_asked(rng)
    try:
        async with doors.client.stream(asked.prompt, **asked.options) as stream:
            for _ in range(rng.choice([0, 1, 3])):
                await anext(stream, None)
    except GuidedError as error:
        return _told(error)
    return "left"


async def _canceller(doors: Doors, rng: random.Random) -> str:
    asked = draw_asked(rng)
    try:
        async with asyncio.timeout(rng.choice([0.01, 0.1, 1.0])):
            return asked.checked((await doors.client.generate(asked.prompt, **asked.options)).text)
    except TimeoutError:
        return "left"
    except GuidedError as error:
        return _told(error)


async def _hurried(doors: Doors, rng: random.Random) -> str:
    """Sets a deadline for the request, or for the call."""
    asked, seconds = draw_asked(rng), rng.choice([0.01, 0.2, 1.0, 3.0])
    limit: dict[str, Any] = {rng.choice(["deadline", "timeout"]): seconds}
    try:
        answer = await doors.client.generate(asked.prompt, **asked.options, **limit)
        return asked.checked(answer.text)
    except GuidedError as error:
        return _told(error, DeadlineExceededError)


async def _hostile(doors: Doors, rng: random.Random) -> str:
    options = hostile_options(rng)
    try:
        await doors.client.generate("x", **options, max_tokens=64, timeout=rng.choice([2.0, 30.0]))
    except GuidedError as error:
        return _told(error, RequestError, DeadlineExceededError)
    return "answered"


async def _batch(doors: Doors, rng: random.Random) -> str:
    asked = [draw_asked(rng) for _ in range(rng.choice([1, 3, 8]))]
    try:
        outcomes = await doors.client.batch([each.request() for each in asked])
    except GuidedError as error:
        return _told(error)
    for each, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Answer):
            each.checked(outcome.text)
        else:
            _told(outcome)
    return "answered"


async def _dead_reader(doors: Doors, rng: random.Random) -> str:
    """Opens a stream on a connection of its own, reads nothing, and vanishes without closing it."""
    asked = draw_asked(rng)
    message = pb.GenerateStreamRequest(request=encode_request(asked.request().specification))
    channel = grpc.aio.insecure_channel(
        doors.address, options=(*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
    )
    call = GenerationServiceStub(channel).GenerateStream(message)
    with suppress(grpc.RpcError):
        await call.wait_for_connection()
    await asyncio.sleep(rng.choice([0.1, 2.0, 5.0]))
    await channel.close()
    return "left"


_Kind = TypeVar("_Kind")
_Often: TypeAlias = tuple[tuple[_Kind, ...], tuple[int, ...]]
"""Kinds of callers, and how often each is drawn."""
_Caller: TypeAlias = Callable[[Doors, random.Random], Awaitable[str]]
_STREAMS: Final[_Often[_Caller]] = (
    (_streamed, _slow_reader, _leaver, _dead_reader),
    (8, 3, 3, 1),
)
_OTHERS: Final[_Often[_Caller]] = (
    (_plain, _canceller, _hurried, _hostile, _batch),
    (3, 2, 2, 1, 1),
)
_WebCaller: TypeAlias = Callable[[Web, random.Random], Awaitable[str]]
_WEB_STREAMS: Final[_Often[_WebCaller]] = (
    (web_streamed, web_slow_reader, web_leaver, web_dead_reader),
    (8, 3, 3, 1),
)
_WEB_OTHERS: Final[_Often[_WebCaller]] = ((web_plain, web_hostile), (3, 1))
