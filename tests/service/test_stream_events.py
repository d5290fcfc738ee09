"""The events of streams as users read them: several answers, calls of tools, thoughts, ends."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import grpc
import pytest
from pydantic import BaseModel, Field, field_validator

import guided
from guided import testing
from guided.client import AsyncClient, Client, RawPrompt, StreamEvent
from guided.errors import AnswerValidationError, RequestCancelledError, RequestError
from guided.spec import FinishReason, Lark, Tool, Usage
from guided.spec.tool_format import HERMES
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from tests.service.http_server import HttpServer
from tests.service.server_process import ServerProcess
from tests.service.test_supervision import cancelled_requests, eventually


class Weather(BaseModel):
    city: str = Field(max_length=6)
    unit: Literal["C", "F"] = "C"


OSLO = '{"city":"Oslo","unit":"C"}'
CALLED = HERMES.call("Weather", OSLO)
SQL = Tool("sql", input=Lark('start: "select " /[a-z]+/'))


class Heard:
    """What the events of a stream say of each answer."""

    def __init__(self, events: list[StreamEvent[Any]]) -> None:
        self.contents: dict[int, str] = defaultdict(str)
        self.thoughts: dict[int, str] = defaultdict(str)
        self.arguments: dict[str, str] = {}
        self.calls: dict[int, list[guided.ToolCall]] = defaultdict(list)
        self.ended: dict[int, guided.Candidate[Any]] = {}
        for event in events:
            assert event.index not in self.ended, "an event came after the end of its answer"
            match event:
                case guided.TextGrown(index, text):
                    assert text
                    self.contents[index] += text
                case guided.ThoughtsGrown(index, text):
                    assert not self.contents[index]
                    self.thoughts[index] += text
                case guided.CallBegun(_, call_id, _):
                    self.arguments[call_id] = ""
                case guided.ArgumentsGrown(_, call_id, text, _):
                    self.arguments[call_id] += text
                case guided.CallEnded(index, call):
                    assert self.arguments[call.id] == call.arguments
                    self.calls[index].append(call)
                case guided.AnswerEnded(index, candidate):
                    assert candidate.index == index
                    self.ended[index] = candidate

    def check(self, answer: guided.Answer[Any], *, has_tools: bool) -> None:
        """Raise unless this is what the answer says."""
        assert self.ended.keys() == {one.index for one in answer.candidates}
        for one in answer.candidates:
            ended, index = self.ended[one.index], one.index
            assert self.contents[index] == (one.content if has_tools else one.text)
            assert self.thoughts[index] == ended.reasoning == one.reasoning
            assert tuple(self.calls[index]) == ended.tool_calls == one.tool_calls
            assert (ended.text, ended.content, ended.value) == (one.text, one.content, one.value)
            assert (ended.finish_reason, ended.num_tokens) == (one.finish_reason, one.num_tokens)
            assert (ended.score, ended.usage) == (one.score, one.usage)


def test_each_answer_is_told_apart_and_ends_by_itself(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply({"city": "Oslo"}, {"city": "Rome", "unit": "F"})
    with asking.stream("?", Weather, n=2, temperature=1) as stream:
        events = list(stream.events())
    heard = Heard(events)
    heard.check(stream.answer, has_tools=False)
    assert heard.ended[0].value == Weather(city="Oslo")
    assert heard.ended[1].usage == Usage(sampled_tokens=26)
    assert [event.index for event in events[:4]] == [0, 1, 0, 1], "side by side"
    assert [event.index for event in events if isinstance(event, guided.AnswerEnded)] == [0, 1]


def test_iterating_over_several_answers_alone_brings_them_whole(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply("one", "two")
    with asking.stream("?", n=2, temperature=1) as stream:
        assert [*stream.thoughts()] == []
        assert [*stream] == []
    assert [one.text for one in stream.answer.candidates] == ["one", "two"]


def test_calls_of_each_answer_come_with_their_values(
    model_free: testing.Server, asking: Client
) -> None:
    typed = HERMES.call("sql", '{"input":"select a"}')
    model_free.reply(f"Let me see.\n{CALLED}\n{typed}", "No.")
    with asking.stream("?", tools=[Weather, SQL], n=2, temperature=1) as stream:
        events = list(stream.events())
    heard = Heard(events)
    heard.check(stream.answer, has_tools=True)
    assert (heard.contents[0], heard.contents[1]) == ("Let me see.", "No.")
    assert [(call.name, call.arguments) for call in heard.calls[0]] == [
        ("Weather", OSLO),
        ("sql", '{"input":"select a"}'),
    ]
    values = [
        (value.pointer, value.value)
        for event in events
        if isinstance(event, guided.ArgumentsGrown)
        for value in event.values
    ]
    assert values == [
        *(("/city", "Oslo"), ("/unit", "C"), ("", {"city": "Oslo", "unit": "C"})),
        *(("/input", "select a"), ("", {"input": "select a"})),
    ]
    (first, *_) = stream.answer.tool_calls
    assert first.id == heard.calls[0][0].id, "a result may name the call that was streamed"


def test_a_single_answer_has_events_too(model_free: testing.Server, asking: Client) -> None:
    model_free.reply(CALLED, {"city": "Oslo"}, "12")
    with asking.stream("?", tools=[Weather]) as stream:
        kinds = [type(event) for event in stream.events()]
    assert (kinds[0], kinds[-2:]) == (guided.CallBegun, [guided.CallEnded, guided.AnswerEnded])
    with asking.stream("?", Weather) as stream:
        Heard(list(stream.events())).check(stream.answer, has_tools=False)
    with asking.stream("?") as stream:
        heard = Heard(list(stream.events()))
    assert (heard.contents[0], heard.ended[0].usage) == ("12", stream.answer.usage)


class Refused(BaseModel):
    age: int = Field(ge=0, le=9)

    @field_validator("age")
    @classmethod
    def _even(cls, age: int) -> int:
        if age % 2:
            raise ValueError("odd")
        return age


def test_an_answer_that_its_type_refuses_ends_with_the_error(
    model_free: testing.Server, asking: Client
) -> None:
    model_free.reply({"age": 3}, {"age": 4})
    with asking.stream("?", Refused, n=2, temperature=1) as stream:
        heard = Heard(list(stream.events()))
    refused, taken = heard.ended[0], heard.ended[1]
    assert isinstance(refused.error, AnswerValidationError)
    assert (refused.value, taken.value) == (None, Refused(age=4))
    assert stream.answer.value == Refused(age=4)


def test_ranked_answers_are_told_at_the_end(model_free: testing.Server, asking: Client) -> None:
    model_free.reply("one", "two", "three")
    with asking.stream("?", n=2, best_of=3, temperature=1) as stream:
        heard = Heard(list(stream.events()))
    heard.check(stream.answer, has_tools=False)
    assert len(heard.ended) == 2


def test_events_are_read_from_the_beginning(model_free: testing.Server, asking: Client) -> None:
    model_free.reply("one", "two")
    with asking.stream("?") as stream:
        next(stream)
        with pytest.raises(RequestError, match="part of the stream was already read; begin with"):
            next(stream.events())
    with (
        asking.stream("?", Weather, n=2, temperature=1) as stream,
        pytest.raises(RequestError, match=r"they grow side by side; read the events\(\) of the"),
    ):
        next(stream.partials())


def test_the_asyncio_stream_has_the_same_events(model_free: testing.Server, asking: Client) -> None:
    model_free.reply(*2 * [f"See.\n{CALLED}", "No."])
    options: dict[str, Any] = {"tools": [Weather], "n": 2, "temperature": 1}

    async def read() -> list[StreamEvent[Any]]:
        async with (
            AsyncClient(model_free.address) as client,
            client.stream("?", **options) as stream,
        ):
            return [event async for event in stream.events()]

    with asking.stream("?", **options) as stream:
        blocking = list(stream.events())
    asynchronous = asyncio.run(read())
    assert [type(event) for event in asynchronous] == [type(event) for event in blocking]
    assert Heard(asynchronous).contents == Heard(blocking).contents


# Through a process of its own


def test_leaving_a_stream_of_several_cancels_all_of_them(echo: Client) -> None:
    with echo.stream(RawPrompt("wait"), n=3, temperature=1) as stream:
        events = stream.events()
        assert {next(events).index for _ in range(3)} == {0, 1, 2}
        assert echo.stats().in_flight == 1
    eventually(lambda: cancelled_requests(echo) == 1)
    with pytest.raises(RequestCancelledError):
        list(events)
    eventually(lambda: echo.stats().in_flight == 0)


def test_a_task_that_drops_its_events_cancels_the_request(echo_server: ServerProcess) -> None:
    async def leave() -> None:
        async with AsyncClient(echo_server.address) as client:
            async with client.stream(RawPrompt("wait"), n=2, temperature=1) as stream:
                await anext(stream.events())
            async with asyncio.timeout(10):
                while (await client.generate(RawPrompt("count"), max_tokens=1)).text[0] != "1":
                    await asyncio.sleep(0.02)

    asyncio.run(leave())


def test_a_slow_reader_gets_longer_pieces_of_every_answer(echo: Client) -> None:
    """Nothing waits for who reads slowly, and nothing is lost."""
    text, together = "ab" * 300, threading.Event()
    with echo.stream(RawPrompt(text), n=3, temperature=1, max_tokens=650) as stream:
        events = stream.events()
        first = next(events)
        together.wait(1.5)
        rest = list(events)
    heard = Heard([first, *rest])
    heard.check(stream.answer, has_tools=False)
    assert [heard.contents[index] for index in range(3)] == [f"{index}{text}" for index in range(3)]


def test_a_caller_from_before_several_were_streamed_gets_them_whole(
    echo_server: ServerProcess, echo: Client
) -> None:
    asked = pb.GenerateRequest(text="text", n=2, max_tokens=4)
    asked.sampling.temperature = 1
    with grpc.insecure_channel(echo_server.address) as channel:
        call = GenerationServiceStub(channel).GenerateStream(
            pb.GenerateStreamRequest(request=asked)
        )
        (only,) = list(call)
    assert [one.text for one in only.answer.candidates] == ["0text", "1text"]
    # A request counts once, however many answers it has.
    eventually(lambda: echo.stats().answered[FinishReason.STOP] == 1)


# A model, with random weights

MANY: dict[str, Any] = {"temperature": 1.5, "max_tokens": 48}
KINDS: dict[str, dict[str, Any]] = {
    "free": {},
    "typed": {"response_model": Weather},
    "stopped": {"stop": ["a", "e"]},
    "tools": {"tools": [Weather, SQL]},
    "required": {"tools": [Weather, SQL], "tool_choice": "required", "max_tokens": 90},
    "beside": {"tools": [Weather], "response_model": Weather, "max_tokens": 90},
    "thoughts": {"response_model": Weather, "reasoning": 9},
}


def test_streamed_answers_are_those_of_the_same_seed_in_mixed_batches(thinker: HttpServer) -> None:
    """For one to four answers, with and without tools, all at once."""
    with Client(thinker.process.address) as client, ThreadPoolExecutor(12) as threads:
        cases = [(kind, n) for kind in KINDS for n in (1, 2, 3, 4)]
        for kind, n, heard, answer in threads.map(lambda case: _streamed(client, *case), cases):
            heard.check(answer, has_tools="tools" in KINDS[kind])
            whole = client.generate("Who?", **MANY | KINDS[kind] | {"n": n, "seed": 5 * n})
            for one, same in zip(answer.candidates, whole.candidates, strict=True):
                assert (one.text, one.finish_reason) == (same.text, same.finish_reason), (kind, n)
                assert (one.value, one.reasoning) == (same.value, same.reasoning)
            counted = [one.usage or Usage() for one in answer.candidates]
            assert sum(each.output_tokens for each in counted) == answer.usage.output_tokens
            if kind == "required":
                assert all(
                    one.tool_calls or one.finish_reason.is_cut_short for one in answer.candidates
                )


def _streamed(client: Client, kind: str, n: int) -> tuple[str, int, Heard, guided.Answer[Any]]:
    options = MANY | KINDS[kind] | {"n": n, "seed": 5 * n}
    with client.stream("Who?", **options) as stream:
        heard = Heard(list(stream.events()))
    return kind, n, heard, stream.answer
