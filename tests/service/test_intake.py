"""Incoming messages: limits before objects, and no caller waits for another's message."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import zmq
from google.protobuf.message import Message as ProtoMessage
from hypothesis import given
from hypothesis import strategies as st

from guided.client import Client, RawPrompt
from guided.errors import LimitExceededError, RequestError
from guided.spec import MAX_MESSAGES, GenerationRequest, Message
from guided.spec.composition import Template
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_request
from guided_service.engine_loop import run_engine
from guided_service.field_count import counted_fields
from guided_service.intake import Readers
from guided_service.messages import (
    Answered,
    Cancel,
    EngineSettings,
    Failed,
    Found,
    ModelChoice,
    Stop,
    Submit,
    Tokenize,
    read_from_engine,
    read_prompt_tokens,
    write,
)
from tests.service.echo_engine import EchoEngine, EchoPrompt
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving

REQUEST = pb.GenerateRequest.DESCRIPTOR


def length(size: int) -> bytes:
    """A number as protobuf writes it."""
    written = bytearray()
    while size > 127:
        written.append(size & 127 | 128)
        size >>= 7
    return bytes((*written, size))


def within(number: int, content: bytes) -> bytes:
    """The bytes of a field that holds a text or a message."""
    return bytes((number << 3 | 2,)) + length(len(content)) + content


EMPTY_MESSAGES = within(2, b"\x0a\x00" * 2_000_000)
EMPTY_PARTS = within(1, b"x") + within(3, within(9, b"\x0a\x00" * 1_900_000))
TEXT_PARTS = within(1, b"x") + within(3, within(9, within(1, within(8, b"ab")) * 500_000))
STOPS = within(1, b"x") + b"\x42\x00" * 2_000_000
STOP_TOKENS = within(1, b"x") + within(9, b"\x05" * 4_000_000)
UNKNOWN = within(1, b"x") + b"\xf8\x3f\x00" * 1_300_000
HOSTILE = {
    "messages without anything": EMPTY_MESSAGES,
    "parts without anything": EMPTY_PARTS,
    "parts of a sequence": TEXT_PARTS,
    "stop strings": STOPS,
    "stop tokens": STOP_TOKENS,
    "fields nobody knows": UNKNOWN,
}


# Counting fields


def fields_of(message: ProtoMessage) -> int:
    """The number of fields of a message, counted in its objects."""
    count = 0
    for descriptor, value in message.ListFields():
        parts = value if descriptor.is_repeated else [value]
        is_packed = descriptor.is_repeated and not isinstance(parts[0], ProtoMessage | str | bytes)
        count += len(parts) + is_packed  # packed values have a field around them
        if descriptor.message_type is not None:
            count += sum(map(fields_of, parts))
    return count


TEXT = st.text(max_size=200)
CONSTRAINTS: st.SearchStrategy[pb.Constraint] = st.recursive(
    st.builds(lambda text: pb.Constraint(text=text), TEXT)
    | st.builds(
        lambda texts: pb.Constraint(choice=pb.TextChoice(options=texts)), st.lists(TEXT, max_size=5)
    ),
    lambda inner: st.lists(inner, max_size=4).map(
        lambda parts: pb.Constraint(sequence=pb.ConstraintList(parts=parts))
    ),
    max_leaves=10,
)
REQUESTS = st.builds(
    lambda texts, constraint, tokens, top: pb.GenerateRequest(
        messages=pb.Messages(messages=[pb.Message(role="user", content=text) for text in texts]),
        constraint=constraint,
        stop_tokens=tokens,
        top_logprobs=top,
        sampling=pb.Sampling(temperature=0.5, seed=2**40),
    ),
    st.lists(TEXT, max_size=5),
    CONSTRAINTS,
    st.lists(st.integers(0, 2**31 - 1), max_size=9),
    st.integers(0, 2**31 - 1),
)


@given(request=REQUESTS)
def test_fields_are_counted_in_bytes_as_in_objects(request: pb.GenerateRequest) -> None:
    written, count = request.SerializeToString(), fields_of(request)
    counted_fields(written, REQUEST, count)
    with pytest.raises(LimitExceededError):
        counted_fields(written, REQUEST, count - 1)


@given(message=st.binary(max_size=60))
def test_what_is_no_message_is_counted_as_far_as_it_goes(message: bytes) -> None:
    counted_fields(message, REQUEST, 1000)


@pytest.mark.parametrize("name", HOSTILE)
def test_counting_ends_at_the_limit(name: str) -> None:
    """In a hundredth of the time that reading it to its end would take."""
    with pytest.raises(LimitExceededError) as caught:
        counted_fields(HOSTILE[name], REQUEST, 50_000)
    assert str(caught.value) == (
        "the call's message has more than 50000 fields, each part of a list counted; send less in "
        "one call, or raise the server's max_message_fields"
    )


# Reading beside the event loop


async def turns_during(work: Any) -> int:
    """The number of turns of the event loop until some work was done."""
    turns, task = 0, asyncio.ensure_future(work)
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    task.result()
    return turns


def test_an_event_loop_goes_on_while_a_long_message_is_read() -> None:
    """A message with as many fields as are allowed."""
    constraint = pb.Constraint(
        sequence=pb.ConstraintList(parts=[pb.Constraint(text="ab")] * 16_000)
    )
    written = pb.GenerateRequest(text="x", constraint=constraint).SerializeToString()

    def read() -> None:
        counted_fields(written, REQUEST, 50_000)
        decode_request(pb.GenerateRequest.FromString(written))

    assert asyncio.run(turns_during(Readers().do(read, len(written)))) > 50
    assert asyncio.run(turns_during(Readers().do(read, 100))) < 5


def test_what_waits_to_be_read_is_left_when_its_caller_leaves() -> None:
    began, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def block() -> None:
        began.set()
        assert may_end.wait(20)

    async def use() -> None:
        readers = Readers()
        blocked = [asyncio.create_task(readers.do(block, 1_000_000)) for _ in range(2)]
        waiting = asyncio.create_task(readers.do(lambda: done.append("left"), 1_000_000))
        await asyncio.to_thread(began.wait, 20)
        assert await readers.do(lambda: "short", 100) == "short"
        waiting.cancel()
        await asyncio.wait([waiting])
        may_end.set()
        await asyncio.gather(*blocked)
        await readers.do(lambda: done.append("last"), 3_000_000)
        readers.close()

    asyncio.run(use())
    assert done == ["last"]


def call(server: ServerProcess, message: bytes) -> grpc.RpcError:
    with grpc.insecure_channel(server.address) as channel:
        generate: Any = channel.unary_unary("/guided.v1.GenerationService/Generate")
        with pytest.raises(grpc.RpcError) as caught:
            generate(message, timeout=60)
        return caught.value


def test_a_message_of_millions_of_fields_is_refused(
    echo: Client, echo_server: ServerProcess
) -> None:
    for message in HOSTILE.values():
        failure: Any = call(echo_server, message)
        assert failure.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "has more than 50000 fields" in failure.details()
    assert echo.generate(RawPrompt("on"), max_tokens=1).text == "on"


def test_a_prompt_that_cannot_fit_is_refused_before_it_waits(tmp_path: Path) -> None:
    """With the server's only place taken, and without a message to the engine."""
    settings = {"model": "bounded", "max_requests_in_flight": "1", "max_batch_size": "1"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        stream = client.stream(RawPrompt("wait"))
        next(stream)
        for prompt in (RawPrompt("x" * 7993), "x" * 7993):
            with pytest.raises(LimitExceededError) as caught:
                client.generate(prompt, timeout=20)
            assert str(caught.value) == (
                "the prompt has 7993 bytes, which are 1000 tokens at least, but the context window "
                "holds 1000; shorten the prompt"
            )
        stream.close()
        assert len(client.generate(RawPrompt("x" * 7992), max_tokens=1).text) == 7992


# Limits of requests


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: GenerationRequest((Message("user", "x"),) * (MAX_MESSAGES + 1)),
            "the conversation has 4097 messages, above the limit of 4096; leave out the oldest, or "
            "tell in one message what they said",
        ),
        (
            lambda: Template("{{" * 2_000_000),
            f"the text '{'{' * 40}'… has 4000000 characters, more than 50000",
        ),
    ],
)
def test_what_is_too_long_is_refused_with_the_limit(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(LimitExceededError) as caught:
        make()
    assert str(caught.value) == message


# Prompts beside the engine


class Panic(BaseException):
    """As compiled libraries raise them."""


@dataclass
class SlowPrompts(EchoEngine):
    """Keeps preparing a prompt until released; no other work waits for that."""

    may_end: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    prepared: list[str] = field(default_factory=list)

    def prepare(self, request: GenerationRequest, *, received: float) -> EchoPrompt:
        self.began.set()
        assert self.may_end.wait(20)
        self.prepared.append(str(request.prompt)[:9])
        if str(request.prompt).startswith("refuse"):
            raise RequestError("the prompt is odd", field="prompt")
        if str(request.prompt).startswith("bug"):
            raise KeyError("secret")
        if str(request.prompt).startswith("panic"):
            raise Panic("secret")
        return super().prepare(request, received=received)


class Talk:
    """The server's end of an engine that runs in a thread."""

    def __init__(self, engine: EchoEngine, socket: Any) -> None:
        self.engine = engine
        self.socket = socket

    def submit(self, request_id: str, prompt: str, max_tokens: int = 1) -> None:
        request = GenerationRequest(prompt, max_tokens=max_tokens)
        self.say(Submit.of(request_id, request, received=time.monotonic(), stream=False))

    def tokenize(self, request_id: str, prompt: str) -> None:
        request = GenerationRequest(prompt)
        self.say(Tokenize.of(request_id, request, received=time.monotonic(), texts=False))

    def say(self, message: Any) -> None:
        self.socket.send(write(message))

    def outcome(self) -> Answered | Found | Failed:
        """The next answer."""
        while self.socket.poll(20_000):
            message = read_from_engine(self.socket.recv())
            if isinstance(message, Answered | Found | Failed):
                return message
        raise AssertionError("nothing was answered")


@contextmanager
def talking(engine: EchoEngine, folder: Path) -> Iterator[Talk]:
    settings = EngineSettings(ModelChoice(), f"ipc://{folder / 'engine'}", os.getppid())
    loop = threading.Thread(target=run_engine, args=(settings, lambda _: engine))
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.bind(settings.endpoint)
        loop.start()
        talk = Talk(engine, socket)
        try:
            yield talk
        finally:
            talk.say(Stop())
            loop.join()


LONG = "x" * 100_000


def test_nobody_waits_for_somebody_elses_long_prompt(tmp_path: Path) -> None:
    engine = SlowPrompts()
    with talking(engine, tmp_path) as talk:
        talk.submit("long", f"long {LONG}")
        assert engine.began.wait(20)
        for number in range(5):
            talk.submit(f"{number}", "short", max_tokens=20)
            assert talk.outcome().request_id == f"{number}"
        engine.may_end.set()
        answered = talk.outcome()
    assert answered.request_id == "long"
    assert isinstance(answered, Answered)
    assert answered.result.text == f"long {LONG}"


def test_long_prompts_that_are_cancelled_are_never_prepared(tmp_path: Path) -> None:
    """Not even if their cancellations come much later than the prompts."""
    engine = SlowPrompts()
    with talking(engine, tmp_path) as talk:
        for number in range(30):
            talk.submit(f"{number}", f"call {number} {LONG}")
        assert engine.began.wait(20)
        talk.submit("last", f"last {LONG}")
        talk.submit("short", "short")
        assert talk.outcome().request_id == "short"
        for number in range(30):
            talk.say(Cancel(f"{number}"))
        talk.submit("after", "short")
        assert talk.outcome().request_id == "after"
        engine.may_end.set()
        assert talk.outcome().request_id == "last"
    # The first had begun; its result is left.
    assert engine.prepared == ["call 0 xx", "last xxxx"]


def test_what_is_wrong_with_a_long_prompt_is_told(tmp_path: Path) -> None:
    engine = SlowPrompts()
    engine.may_end.set()
    with talking(engine, tmp_path) as talk:
        outcomes = []
        for prompt in ("refuse", "bug", "panic", "fine"):
            talk.submit(prompt, f"{prompt} {LONG}")
            outcomes.append(talk.outcome())
    refused, *failures, fine = outcomes
    assert isinstance(refused, Failed)
    assert (refused.error.code, refused.error.message) == ("INVALID_REQUEST", "the prompt is odd")
    for failed in failures:
        assert isinstance(failed, Failed)
        assert failed.error.code == "INTERNAL"
        assert "secret" not in failed.error.message
    assert isinstance(fine, Answered)
    assert engine.refused == 3


def test_nobody_waits_for_the_tokens_of_somebody_elses_long_prompt(tmp_path: Path) -> None:
    engine = SlowPrompts()
    with talking(engine, tmp_path) as talk:
        talk.tokenize("long", f"long {LONG}")
        talk.tokenize("cancelled", f"long {LONG}")
        assert engine.began.wait(20)
        talk.submit("short", "short", max_tokens=20)
        assert talk.outcome().request_id == "short"
        talk.say(Cancel("cancelled"))
        talk.submit("after", "short")
        assert talk.outcome().request_id == "after"
        engine.may_end.set()
        found = talk.outcome()
    assert isinstance(found, Found)
    assert found.request_id == "long"
    assert read_prompt_tokens(found.finding).tokens == tuple(f"long {LONG}".encode())
    assert engine.prepared == ["long xxxx"]


@pytest.mark.parametrize("length", ["", LONG])
def test_a_prompt_whose_tokens_cannot_be_told_counts_as_no_refused_request(
    tmp_path: Path, length: str
) -> None:
    engine = SlowPrompts()
    engine.may_end.set()
    with talking(engine, tmp_path) as talk:
        talk.tokenize("refuse", f"refuse {length}")
        refused = talk.outcome()
        talk.tokenize("bug", f"bug {length}")
        failed = talk.outcome()
        talk.tokenize("fine", f"fine {length}")
        assert isinstance(talk.outcome(), Found)
    assert isinstance(refused, Failed)
    assert refused.error.message == "the prompt is odd"
    assert isinstance(failed, Failed)
    assert failed.error.code == "INTERNAL"
    assert engine.refused == 0
