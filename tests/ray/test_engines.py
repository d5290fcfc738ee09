"""The outcome of a request whose replica has no engine at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("ray", reason="make test-ray runs these")

from guided.errors import ServiceUnavailableError
from guided.spec import (
    FinishReason,
    GenerationRequest,
    GenerationResult,
    PromptTokens,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided.spec.delta import Delta
from guided_service.config import ServerConfig
from guided_service.messages import Answered, Found, Grown
from guided_service.ray.engine import reply_of_event
from guided_service.ray.engines import Engines
from guided_service.ray.messages import Absent, Asked, Reply, write_reply
from guided_service.stream_events import StreamEvent

RESULT = GenerationResult("yes", (), FinishReason.STOP, Usage(), seconds=0.0)
REQUEST = GenerationRequest("Is it?", max_tokens=5)


@dataclass
class Replying:
    """A call to one engine, which replies with these."""

    replies: tuple[Reply, ...]
    is_cancelled: bool = False

    def __await__(self) -> Generator[Any, None, bytes]:
        yield from asyncio.sleep(0).__await__()
        return write_reply(self.replies[0])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for each in self.replies:
            yield write_reply(each)

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class Handle:
    """A deployment whose router chooses one replica after the other."""

    replicas: list[tuple[Reply, ...]]
    asked: list[Asked] = field(default_factory=list)
    calls: list[Replying] = field(default_factory=list)

    def options(self, *, stream: bool) -> Any:
        assert stream
        return self

    @property
    def generate(self) -> Any:
        return self

    @property
    def stream(self) -> Any:
        return self

    @property
    def tokenize(self) -> Any:
        return self

    @property
    def detokenize(self) -> Any:
        return self

    def remote(self, asked: Asked) -> Replying:
        self.asked.append(asked)
        self.calls.append(Replying(self.replicas[len(self.calls)]))
        return self.calls[-1]


def engines(*replicas: tuple[Reply, ...]) -> tuple[Engines, Handle]:
    handle = Handle([*replicas])
    replying: Any = handle
    return Engines(replying, ServerConfig.model_construct()), handle


GONE = (Absent("a"),), (Absent("b"),)
YES = Delta("r", "yes", index=1)


def test_another_is_asked_that_is_not_one_of_those() -> None:
    made, handle = engines(*GONE, (Answered("", RESULT),))
    assert asyncio.run(made.generate(REQUEST, 0.0)) == RESULT
    assert [each.avoided for each in handle.asked] == [set(), {"a"}, {"a", "b"}]
    assert all(each.is_cancelled for each in handle.calls), "nothing is left of any"


def test_a_stream_begins_at_another() -> None:
    made, handle = engines(*GONE, (Grown((YES,)), Answered("", RESULT)))

    async def read() -> list[object]:
        return [each async for each in made.stream(REQUEST, 0.0)]

    assert asyncio.run(read()) == [YES, RESULT]
    assert [each.avoided for each in handle.asked] == [set(), {"a"}, {"a", "b"}]
    assert all(each.is_cancelled for each in handle.calls)


def test_a_stream_keeps_thoughts_and_log_probabilities() -> None:
    scores = (TokenLogprobs(TokenId(5), b"yes", -0.5, -0.25),)
    growth: tuple[StreamEvent, ...] = (
        Delta("r", "hm", is_thought=True),
        Delta("r", "yes", logprobs=scores),
        Delta("r", "!"),
        RESULT,
    )
    made, _ = engines(tuple(map(reply_of_event, growth)))

    async def read() -> list[object]:
        return [each async for each in made.stream(REQUEST, 0.0)]

    assert tuple(asyncio.run(read())) == growth


def test_where_there_is_no_other_callers_are_told() -> None:
    made, handle = engines(*GONE, *GONE)
    with pytest.raises(ServiceUnavailableError, match="no engine is ready; try again shortly"):
        asyncio.run(made.generate(REQUEST, 0.0))
    assert len(handle.asked) == 3, "each once, and one of them again"


def test_any_of_them_tells_tokens() -> None:
    tokens = PromptTokens((TokenId(5), TokenId(6)), (b"a", b"b"))
    made, handle = engines(*GONE, (Found.of("", tokens),))
    assert asyncio.run(made.tokenize(REQUEST, 0.0, texts=True)) == tokens
    assert [each.avoided for each in handle.asked] == [set(), {"a"}, {"a", "b"}]
    made, _ = engines((Found.of("", b"ab"),))
    assert asyncio.run(made.detokenize(tokens.tokens)) == b"ab"
