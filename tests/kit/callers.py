"""Callers of every kind, each of which makes one call and says what came of it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import grpc.aio

from guided.client import Answer, AsyncClient
from guided.client.channel import CHANNEL_OPTIONS
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    RequestError,
    ServiceUnavailableError,
)
from guided.spec import Choice, Ebnf, Lark, Regex
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.wire_request import encode_request
from tests.kit.nonces import Asked, Verdict, draw_asked

__all__ = ["LOST_SECONDS", "Tally", "call_once", "hostile_options"]

LOST_SECONDS: Final = 240.0
"""A caller that was told nothing for so long is lost."""


@dataclass
class Tally:
    """What callers of each kind were told, and what should not have been."""

    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    """Most calls that were open at once."""
    open_streams: int = 0

    def count(self, outcome: str) -> int:
        """Calls of all kinds with this outcome."""
        return sum(number for (_, said), number in self.told.items() if said == outcome)


class MistoldError(Exception):
    """A caller was told what it should not have been told."""


async def call_once(
    address: str, client: AsyncClient, rng: random.Random, tally: Tally, *, is_stream: bool
) -> None:
    """One call of some kind, of those that are streams or of the others."""
    (kind,) = rng.choices(*(_STREAMS if is_stream else _OTHERS))
    name = kind.__name__.strip("_")
    tally.open += 1
    tally.open_streams += is_stream
    tally.most_open = max(tally.most_open, tally.open)
    try:
        async with asyncio.timeout(LOST_SECONDS):
            outcome = await kind(address, client, rng)
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


def _judged(asked: Asked, answer: Answer[Any]) -> str:
    verdict = asked.judge(answer.text)
    if verdict is not Verdict.RIGHT:
        raise MistoldError(f"{verdict}: {answer.text!r} for {asked.nonce} of {asked.options}")
    return "answered"


def _told(error: GuidedError, *expected: type[GuidedError]) -> str:
    """The name of an error that a caller may be told, besides that the server is not there."""
    if not isinstance(error, (ServiceUnavailableError, *expected)):
        raise MistoldError(f"told {type(error).__name__}: {error}")
    return type(error).__name__


async def _plain(_: str, client: AsyncClient, rng: random.Random) -> str:
    asked = draw_asked(rng)
    try:
        return _judged(asked, await client.generate(asked.prompt, **asked.options))
    except GuidedError as error:
        return _told(error)


async def _streamed(_: str, client: AsyncClient, rng: random.Random) -> str:
    return await _read(client, draw_asked(rng), pause=0.0)


async def _slow_reader(_: str, client: AsyncClient, rng: random.Random) -> str:
    return await _read(client, draw_asked(rng), pause=rng.choice([0.05, 0.2]))


async def _read(client: AsyncClient, asked: Asked, pause: float) -> str:
    try:
        async with client.stream(asked.prompt, **asked.options) as stream:
            pieces = []
            async for piece in stream:
                pieces.append(piece)
                await asyncio.sleep(pause)
        if "".join(pieces) != stream.answer.text:
            raise MistoldError(f"the pieces {pieces} are not the text {stream.answer.text!r}")
        return _judged(asked, stream.answer)
    except GuidedError as error:
        return _told(error)


async def _leaver(__: str, client: AsyncClient, rng: random.Random) -> str:
    asked = draw_asked(rng)
    try:
        async with client.stream(asked.prompt, **asked.options) as stream:
            for _ in range(rng.choice([0, 1, 3])):
                await anext(stream, None)
    except GuidedError as error:
        return _told(error)
    return "left"


async def _canceller(_: str, client: AsyncClient, rng: random.Random) -> str:
    asked = draw_asked(rng)
    try:
        async with asyncio.timeout(rng.choice([0.01, 0.1, 1.0])):
            return _judged(asked, await client.generate(asked.prompt, **asked.options))
    except TimeoutError:
        return "left"
    except GuidedError as error:
        return _told(error)


async def _hurried(_: str, client: AsyncClient, rng: random.Random) -> str:
    """Has a deadline of its own, or of the call."""
    asked, seconds = draw_asked(rng), rng.choice([0.01, 0.2, 1.0, 3.0])
    limit: dict[str, Any] = {rng.choice(["deadline", "timeout"]): seconds}
    try:
        answer = await client.generate(asked.prompt, **asked.options, **limit)
        return _judged(asked, answer)
    except GuidedError as error:
        return _told(error, DeadlineExceededError)


async def _hostile(_: str, client: AsyncClient, rng: random.Random) -> str:
    options = hostile_options(rng)
    try:
        await client.generate("x", **options, max_tokens=64, timeout=rng.choice([2.0, 30.0]))
    except GuidedError as error:
        return _told(error, RequestError, DeadlineExceededError)
    return "answered"


async def _batch(_: str, client: AsyncClient, rng: random.Random) -> str:
    asked = [draw_asked(rng) for _ in range(rng.choice([1, 3, 8]))]
    try:
        outcomes = await client.batch([each.request() for each in asked])
    except GuidedError as error:
        return _told(error)
    for each, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Answer):
            _judged(each, outcome)
        else:
            _told(outcome)
    return "answered"


async def _dead_reader(address: str, _: AsyncClient, rng: random.Random) -> str:
    """Opens a stream on a connection of its own, reads nothing, and goes without a word."""
    asked = draw_asked(rng)
    message = pb.GenerateStreamRequest(request=encode_request(asked.request().specification))
    channel = grpc.aio.insecure_channel(
        address, options=(*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))
    )
    call = GenerationServiceStub(channel).GenerateStream(message)
    with suppress(grpc.RpcError):
        await call.wait_for_connection()
    await asyncio.sleep(rng.choice([0.1, 2.0, 5.0]))
    await channel.close()
    return "left"


_Caller = Callable[[str, AsyncClient, random.Random], Awaitable[str]]
_STREAMS: Final[tuple[tuple[_Caller, ...], tuple[int, ...]]] = (
    (_streamed, _slow_reader, _leaver, _dead_reader),
    (8, 3, 3, 1),
)
_OTHERS: Final[tuple[tuple[_Caller, ...], tuple[int, ...]]] = (
    (_plain, _canceller, _hurried, _hostile, _batch),
    (3, 2, 2, 1, 1),
)
"""With how often each is drawn."""


def hostile_options(rng: random.Random) -> dict[str, Any]:
    """A constraint that is wrong, cannot be met, or takes more work than it should."""
    size = rng.randrange(1, 4000)
    made: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"schema": '{"type": "strin"}'},
        lambda: {"schema": "{" * size},
        lambda: {"schema": {"type": "string", "pattern": r"(a)\1"}},
        lambda: {"schema": {"allOf": [{"type": "string"}, {"type": "integer"}]}},
        lambda: {"schema": _nested(size % 300)},
        lambda: {"schema": {"enum": [f"value {number:x}" for number in range(size)]}},
        lambda: {"schema": {"oneOf": [_closed(f"k{n % 7}") for n in range(size % 40 + 1)]}},
        lambda: {"grammar": Regex("(" * size + "a" + ")" * size)},
        lambda: {"grammar": Regex(f"^.{{1,{size * 5}}}$")},
        lambda: {"grammar": Regex(rf"(\w|\d|\s|é){{1,{size}}}")},
        lambda: {"grammar": Regex(f"(a|b)*a(a|b){{{size}}}")},
        lambda: {"grammar": Lark("start: start")},
        lambda: {"grammar": Lark("start: " + "(" * size)},
        lambda: {"grammar": Ebnf("root ::= root root | " + '"a" ' * (size % 500))},
        lambda: {"grammar": Choice(tuple(f"{number}" * 9 for number in range(size)))},
    )
    return rng.choice(made)()


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 2}
    return schema


def _closed(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}, "b": {"type": ["integer", "string"]}},
        "additionalProperties": False,
    }
