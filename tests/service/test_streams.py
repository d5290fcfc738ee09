"""Streams over the wire: text as it grows, the answer last, errors at any time, slow readers."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest

from guided.client import AsyncClient, AsyncStream, Client, RawPrompt, Request
from guided.client.options import Options
from guided.client.security import CHANNEL_OPTIONS
from guided.errors import (
    DeadlineExceededError,
    IncompleteAnswerError,
    InvalidConstraintError,
    RequestCancelledError,
    RequestError,
    ServiceUnavailableError,
)
from guided.spec import CandidateResult, FinishReason, TokenId, TokenLogprobs, Usage
from guided.spec.delta import Delta
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided_service.calls import write_within
from guided_service.stream_events import Outbox
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import cancelled_requests, eventually


def test_the_text_comes_in_pieces_and_the_answer_last(shared_echo: Client) -> None:
    with shared_echo.stream(RawPrompt("語 and more"), max_tokens=5) as stream:
        with pytest.raises(RequestError, match="the stream has not ended; read it first"):
            _ = stream.answer
        pieces = list(stream)
        assert next(stream, None) is None
    assert "".join(pieces) == stream.answer.text == "語 and more"
    assert all(pieces)
    assert stream.answer.finish_reason is FinishReason.STOP
    assert stream.answer.usage.forced_tokens == 4


def test_the_answer_of_a_stream_is_read_by_its_type(shared_echo: Client) -> None:
    with shared_echo.stream(RawPrompt("[1, 2]"), list[int], max_tokens=9) as stream:
        assert "".join(stream) == "[1, 2]"
    assert stream.answer.value == [1, 2]


def test_values_come_as_they_are_complete(shared_echo: Client) -> None:
    """Each token of this engine is a character, and its last one all the rest."""
    text = '{"a": [1, "x"], "b": {}}'
    with shared_echo.stream(RawPrompt(text), dict[str, Any], max_tokens=30) as stream:
        told = [(event.pointer, event.value) for event in stream.values()]
    assert told == [
        ("/a/0", 1),
        ("/a/1", "x"),
        ("/a", [1, "x"]),
        ("/b", {}),
        ("", {"a": [1, "x"], "b": {}}),
    ]
    assert stream.answer.value == told[-1][1]


def test_an_answer_is_seen_while_it_grows(shared_echo: Client) -> None:
    """In whatever pieces, as a caller who is slow gets longer ones."""
    whole = "a" * 400
    prompt = RawPrompt(json.dumps([whole, "c"]))
    with shared_echo.stream(prompt, list[str], max_tokens=len(whole) + 9) as stream:
        *partials, last = stream.partials()
    assert last == stream.answer.value == [whole, "c"]
    texts = ["".join(partial) for partial in partials]
    assert texts == sorted(texts, key=len)
    assert any(text and whole.startswith(text) for text in texts)
    with shared_echo.stream(RawPrompt("12"), schema={}, max_tokens=2) as number:
        assert list(number.partials()) == [12]


def test_the_asyncio_stream_tells_the_same(shared_echo_server: ServerProcess) -> None:
    whole = "a" * 400

    async def read() -> tuple[list[tuple[str, Any]], list[Any]]:
        prompt, options = RawPrompt('["ab",7]'), Options(max_tokens=8)
        async with AsyncClient(shared_echo_server.address) as client:
            async with client.stream(prompt, list[str | int], **options) as stream:
                events = [(event.pointer, event.value) async for event in stream.values()]
            prompt, options = RawPrompt(json.dumps([whole])), Options(max_tokens=len(whole) + 5)
            async with client.stream(prompt, list[str], **options) as stream:
                partials = [partial async for partial in stream.partials()]
        return events, partials

    events, partials = asyncio.run(read())
    assert events == [("/0", "ab"), ("/1", 7), ("", ["ab", 7])]
    # In whatever pieces, as a caller who is slow gets longer ones.
    *growing, last = ["".join(partial) for partial in partials]
    assert last == whole
    assert growing == sorted(growing, key=len)
    assert any(text and whole.startswith(text) for text in growing)


def test_values_are_read_from_the_beginning_of_json(shared_echo: Client) -> None:
    with shared_echo.stream(RawPrompt("[1]"), list[int], max_tokens=3) as stream:
        next(stream)
        with pytest.raises(RequestError, match="part of the stream was already read"):
            next(stream.values())
    with (
        shared_echo.stream(RawPrompt("text")) as stream,
        pytest.raises(RequestError, match="partial answers need a response_model or a schema"),
    ):
        next(stream.partials())


def test_an_error_before_the_first_text_is_that_of_a_plain_call(shared_echo: Client) -> None:
    with (
        pytest.raises(InvalidConstraintError) as caught,
        shared_echo.stream(RawPrompt("refuse")) as s,
    ):
        next(s)
    assert str(caught.value) == "at /type: the type is odd; even it out"


def test_an_answer_cut_short_keeps_its_text_however_it_was_asked_for(shared_echo: Client) -> None:
    """Of a long text the beginning, as much as the trailers of a call can carry."""
    for text, told in (('{"city":""}', '{"city":""}'), ("語" * 5000, "語" * 666 + "…")):
        options: Options = {"max_tokens": 9, "on_incomplete": "error"}
        request = Request(RawPrompt(text), **options)
        (batched,) = shared_echo.batch([request])
        with pytest.raises(IncompleteAnswerError) as alone:
            shared_echo.generate(RawPrompt(text), **options)
        heard: list[str] = []
        with (
            pytest.raises(IncompleteAnswerError) as streamed,
            shared_echo.stream(RawPrompt(text), **options) as stream,
        ):
            heard.extend(stream)
        assert "".join(heard) == text[:3]
        for error in (batched, alone.value, streamed.value):
            assert isinstance(error, IncompleteAnswerError)
            assert str(error) == "the answer was cut short; allow more tokens"
            assert error.text == told
            assert error.finish_reason is FinishReason.LENGTH_CLOSED
            assert error.usage == Usage(prompt_tokens=5, sampled_tokens=3)


def test_an_error_behind_some_text_keeps_its_kind_and_its_place(shared_echo: Client) -> None:
    heard: list[str] = []
    with (
        pytest.raises(InvalidConstraintError) as caught,
        shared_echo.stream(RawPrompt("fail later"), max_tokens=9) as stream,
    ):
        heard.extend(stream)
    assert "".join(heard) == "fai"
    assert caught.value.pointer == "/rest"


def test_an_engine_that_dies_fails_its_streams(echo: Client) -> None:
    with pytest.raises(ServiceUnavailableError, match="killed by signal 9"):
        list(echo.stream(RawPrompt("die")))


def test_leaving_a_stream_cancels_its_request(echo: Client) -> None:
    with echo.stream(RawPrompt("wait")) as stream:
        assert next(stream)
    eventually(lambda: cancelled_requests(echo) == 1)
    with pytest.raises(RequestCancelledError):
        list(stream)


def test_a_deadline_frees_what_a_stream_held(echo: Client) -> None:
    with pytest.raises(DeadlineExceededError):
        list(echo.stream(RawPrompt("wait"), timeout=2))  # the engine has it by then
    eventually(lambda: cancelled_requests(echo) == 1)


def test_a_client_that_goes_away_frees_what_its_streams_held(
    echo: Client, echo_server: ServerProcess
) -> None:
    with Client(echo_server.address) as leaving:
        stream = leaving.stream(RawPrompt("wait"))
        assert next(stream)
    eventually(lambda: cancelled_requests(echo) == 1)
    with pytest.raises(RequestCancelledError):
        next(stream)


def test_a_stream_is_read_on_the_thread_that_asks(echo_server: ServerProcess) -> None:
    with Client(echo_server.address) as client:
        before = threading.active_count()
        with client.stream(RawPrompt("hello"), max_tokens=9) as stream:
            assert next(stream)
            assert threading.active_count() == before


@pytest.mark.parametrize("closes", ["stream", "client"])
def test_another_thread_may_end_a_stream_that_is_waited_for(
    echo_server: ServerProcess, closes: str
) -> None:
    with Client(echo_server.address) as client, ThreadPoolExecutor(2) as threads:
        asking = threads.submit(lambda: client.generate(RawPrompt("wait")))
        stream = client.stream(RawPrompt("wait"))
        assert next(stream)
        reading = threads.submit(list, stream)
        eventually(lambda: client.stats().running == 2)
        (stream if closes == "stream" else client).close()
        with pytest.raises(RequestCancelledError, match="the stream was closed"):
            reading.result(20)
        client.close()
        with pytest.raises(RequestCancelledError, match="the client was closed"):
            asking.result(20)


@pytest.mark.parametrize("closes", ["stream", "client"])
def test_another_task_may_end_what_is_waited_for(echo_server: ServerProcess, closes: str) -> None:
    async def talk() -> None:
        client = AsyncClient(echo_server.address)
        stream = client.stream(RawPrompt("wait"))
        assert await anext(stream)
        asking = asyncio.create_task(client.generate(RawPrompt("wait")))
        reading = asyncio.create_task(_read(stream))
        await asyncio.sleep(0.1)
        await (stream if closes == "stream" else client).close()
        # No CancelledError, which would look as if the task itself had been cancelled.
        with pytest.raises(RequestCancelledError, match="the stream was closed"):
            await reading
        await client.close()
        with pytest.raises(RequestCancelledError, match="the client was closed"):
            await asking

    asyncio.run(talk())


async def _read(stream: AsyncStream[Any]) -> list[str]:
    return [text async for text in stream]


def test_a_task_that_is_cancelled_while_its_stream_is_closed_stays_cancelled(
    echo_server: ServerProcess,
) -> None:
    async def talk() -> None:
        async with AsyncClient(echo_server.address) as client:
            stream = client.stream(RawPrompt("wait"))
            assert await anext(stream)
            reading = asyncio.create_task(_read(stream))
            await asyncio.sleep(0.1)
            await stream.close()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    asyncio.run(talk())


def test_the_asyncio_client_streams_alike(echo_server: ServerProcess) -> None:
    async def read() -> None:
        async with AsyncClient(echo_server.address) as client:
            async with client.stream(RawPrompt("[1, 2]"), list[int], max_tokens=4) as stream:
                pieces = [text async for text in stream]
            assert "".join(pieces) == "[1, 2]"
            assert stream.answer.value == [1, 2]
            with pytest.raises(InvalidConstraintError):
                async with client.stream(RawPrompt("refuse")) as refused:
                    await anext(refused)
            async with client.stream(RawPrompt("wait")) as waiting:
                await anext(waiting)
            async with asyncio.timeout(10):
                while (await client.generate(RawPrompt("count"), max_tokens=1)).text[0] != "1":
                    await asyncio.sleep(0.02)

    asyncio.run(read())


@pytest.mark.parametrize("seconds", [0.5])
def test_a_reader_who_stalls_is_cut_off_and_holds_nobody_up(tmp_path: Path, seconds: float) -> None:
    """Sixteen megabytes do not fit into the transport's window."""
    settings = {
        "stall_seconds": f"{seconds}",
        "max_message_bytes": str(2**25),
        "max_requests_in_flight": "1",
        "max_batch_size": "1",
        "retry_after_seconds": "0.05",
    }
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        grpc.insecure_channel(server.address, options=CHANNEL_OPTIONS) as channel,
        Client(server.address) as other,
    ):
        long = pb.GenerateRequest(text="x" * 2**24, max_tokens=3)
        stream = GenerationServiceStub(channel).GenerateStream(
            pb.GenerateStreamRequest(request=long)
        )
        eventually(lambda: other.stats().in_flight == 1)
        eventually(partial(_is_served, other))
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert caught.value.details() == (
            f"the caller read nothing of the answer for {seconds:g} s; "
            "read faster, or ask for less at once"
        )


def test_who_leaves_while_a_message_is_sent_is_a_line_of_the_log_alone(tmp_path: Path) -> None:
    """Sixteen megabytes do not fit into the transport's window."""
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"max_message_bytes": str(2**25)}) as server,
        grpc.insecure_channel(server.address, options=CHANNEL_OPTIONS) as channel,
        Client(server.address) as other,
    ):
        long = pb.GenerateRequest(text="x" * 2**24, max_tokens=1)
        batch = pb.GenerateBatchRequest(requests=[long])
        call = GenerationServiceStub(channel).GenerateBatch(batch)
        eventually(lambda: "index=0" in server.log.read_text())
        other.stats()  # after the answer, which is being sent by now
        call.cancel()
        eventually(lambda: "status=CANCELLED" in server.log.read_text())
        server.ask_to_stop()
        assert server.wait(30) == 0
    assert "Traceback" not in server.log.read_text()


def test_who_has_left_before_a_message_is_sent_has_cancelled_the_call() -> None:
    """The transport reports it so if both happen at once: no fault of the service."""

    class Gone:
        async def write(self, message: object) -> None:
            raise grpc.aio.InternalError(f"Failed to send {message!r}")

    with pytest.raises(RequestCancelledError, match="left before its answer was sent"):
        asyncio.run(write_within(9, pb.GenerateBatchResponse(), cast("Any", Gone())))


def _is_served(client: Client) -> bool:
    try:
        return client.generate(RawPrompt("hello"), max_tokens=1).text == "hello"
    except ServiceUnavailableError:
        return False


def test_text_that_nobody_takes_is_kept_as_one_piece() -> None:
    async def use() -> None:
        outbox = Outbox()
        for _ in range(1000):
            outbox.put(Delta("r", "ab"))
        assert await outbox.take() == Delta("r", "ab" * 1000)
        taking = asyncio.create_task(outbox.take())
        await asyncio.sleep(0)
        assert not taking.done()
        outbox.put(Delta("r", "c"))
        assert await taking == Delta("r", "c")
        outbox.put(Delta("r", "d"))
        outbox.close()
        assert [await outbox.take(), await outbox.take()] == [Delta("r", "d"), None]

    asyncio.run(use())


def test_log_probabilities_are_taken_with_their_text() -> None:
    one, other = (TokenLogprobs(TokenId(number), b"a", -1.0, -1.0) for number in range(2))

    async def use() -> None:
        outbox = Outbox()
        for text, token in (("a", one), ("b", other)):
            outbox.put(Delta("r", text, logprobs=(token,)))
        outbox.put(Delta("r", "hm", is_thought=True))
        assert await outbox.take() == Delta("r", "hm", is_thought=True)
        assert await outbox.take() == Delta("r", "ab", logprobs=(one, other))
        outbox.put(Delta("r", "c"))
        assert await outbox.take() == Delta("r", "c")

    asyncio.run(use())


def test_several_answers_are_taken_in_turn_each_as_one_piece() -> None:
    """So that a slow reader of one answer that grows fast still gets the others."""
    end = CandidateResult(1, "bb", (), FinishReason.STOP, 0.0)

    async def use() -> None:
        outbox = Outbox()
        for _ in range(2):
            for index, text in enumerate("ab"):
                outbox.put(Delta("r", text, index=index))
        assert await outbox.take() == Delta("r", "aa", index=0)
        outbox.put(Delta("r", "a", index=0))
        outbox.put(Delta("r", "", index=1, ended=end))
        assert await outbox.take() == Delta("r", "bb", index=1, ended=end)
        outbox.put(Delta("r", "hm", is_thought=True, index=2))
        outbox.put(Delta("r", "c", index=2))
        outbox.close()
        assert [await outbox.take() for _ in range(4)] == [
            Delta("r", "a", index=0),
            Delta("r", "hm", is_thought=True, index=2),
            Delta("r", "c", index=2),
            None,
        ]

    asyncio.run(use())
