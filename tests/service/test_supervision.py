"""A server keeps its promises whatever happens to its engine and its callers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client import Answer, AsyncClient, Client, RawPrompt, Request, wait_until_serving
from guided.client.status import raising_guided_errors
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    InternalServiceError,
    InvalidConstraintError,
    LimitExceededError,
    RequestError,
    ServiceUnavailableError,
)
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided_service.process_life import is_orphan
from tests.service.server_process import ECHO_SERVER, ServerProcess, listening, serving


def raw(prompt: str, max_tokens: int = 1) -> Request[str]:
    return Request(RawPrompt(prompt), max_tokens=max_tokens)


def cancelled_requests(client: Client) -> int:
    text = client.generate(RawPrompt("count"), max_tokens=1).text
    return int(text.removesuffix(" cancelled"))


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def test_outcomes_come_as_they_complete_each_with_its_own_status(shared_echo: Client) -> None:
    requests = [raw("slow", 400), raw("refuse"), raw("bug in submit"), raw("quick", 1)]
    completed = list(shared_echo.as_completed(requests))
    assert sorted(one.index for one in completed) == [0, 1, 2, 3]
    assert completed[-1].index == 0
    outcomes = {one.index: one.outcome for one in completed}
    refused, failed = outcomes[1], outcomes[2]
    assert isinstance(outcomes[0], Answer)
    assert isinstance(outcomes[3], Answer)
    assert isinstance(refused, InvalidConstraintError)
    assert isinstance(failed, InternalServiceError)
    assert str(refused) == "at /type: the type is odd; even it out"
    assert (refused.pointer, refused.position, refused.hint) == ("/type", 3, "even it out")


def test_a_fault_is_logged_once_under_the_incident_that_its_caller_is_told(
    shared_echo: Client, shared_echo_server: ServerProcess
) -> None:
    with pytest.raises(InternalServiceError) as caught:
        shared_echo.generate(RawPrompt("bug in submit"))
    assert "secret" not in str(caught.value)
    incident = caught.value.message.removeprefix("the service failed; incident ")
    log = shared_echo_server.log.read_text()
    assert log.count(incident) == 1
    assert "KeyError: 'secret'" in log


def test_an_error_of_any_length_arrives_cut_to_what_a_call_can_carry(shared_echo: Client) -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        shared_echo.generate(RawPrompt("long refusal"))
    error = caught.value
    assert str(error).startswith("at /é/é")
    assert error.hint is not None
    assert error.hint.startswith("💡💡")
    assert error.hint.endswith("…")
    assert str(error).count("語") > 100


def test_closing_an_iterator_frees_what_its_batch_held(echo: Client) -> None:
    completed = echo.as_completed([raw("quick"), raw("wait"), raw("wait")])
    assert next(completed).index == 0
    # Requests that have not begun cost nothing and are not counted as cancelled.
    eventually(lambda: echo.stats().running == 2)
    completed.close()
    eventually(lambda: cancelled_requests(echo) == 2)


def test_a_client_that_goes_away_frees_what_its_calls_held(
    echo: Client, echo_server: ServerProcess
) -> None:
    with Client(echo_server.address) as leaving:
        completed = leaving.as_completed([raw("quick"), raw("wait")])
        next(completed)
        # One that has not begun costs nothing and is not counted as cancelled.
        eventually(lambda: echo.stats().running == 1)
    eventually(lambda: cancelled_requests(echo) == 1)


def test_a_deadline_frees_what_its_call_held(echo: Client) -> None:
    with pytest.raises(DeadlineExceededError, match="allow more time"):
        echo.generate(RawPrompt("wait"), timeout=2)  # the engine has it by then
    late = echo.batch([raw("wait"), raw("wait")], timeout=2)
    assert [type(outcome) for outcome in late] == [DeadlineExceededError] * 2
    eventually(lambda: cancelled_requests(echo) == 3)


def test_a_cancelled_task_frees_what_its_call_held(
    echo: Client, echo_server: ServerProcess
) -> None:
    async def give_up() -> None:
        async with AsyncClient(echo_server.address) as client:
            for call in (client.generate(RawPrompt("wait")), client.batch([raw("wait")])):
                task = asyncio.ensure_future(call)
                await asyncio.to_thread(eventually, lambda: echo.stats().running == 1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.to_thread(eventually, lambda: echo.stats().running == 0)

    asyncio.run(give_up())
    eventually(lambda: cancelled_requests(echo) == 2)


def test_the_asyncio_client_does_what_the_blocking_one_does(
    shared_echo_server: ServerProcess,
) -> None:
    async def talk() -> None:
        async with AsyncClient(shared_echo_server.address) as client:
            assert (await client.generate("hello", max_tokens=1)).value == "hello"
            outcomes = await client.batch([raw("slow", 50), raw("refuse"), raw("quick")])
            assert isinstance(outcomes[0], Answer)
            assert isinstance(outcomes[1], InvalidConstraintError)
            assert isinstance(outcomes[2], Answer)
            assert outcomes[2].text == "quick"
            with pytest.raises(InvalidConstraintError, match="the type is odd"):
                await client.generate(RawPrompt("refuse"))

    asyncio.run(talk())


@pytest.mark.parametrize("end_engine", ["kill", "bug in step"])
def test_a_lost_engine_fails_what_it_ran_and_comes_back(
    echo: Client, echo_server: ServerProcess, end_engine: str
) -> None:
    before = echo_server.engine_process_id()
    outcomes: list[GuidedError | Answer[str]] = []
    batch = threading.Thread(target=lambda: outcomes.extend(echo.batch([raw("wait"), raw("wait")])))
    completed = echo.as_completed([raw("quick"), raw("wait")])
    next(completed)
    batch.start()
    eventually(lambda: echo.stats().running == 3)
    if end_engine == "kill":
        os.kill(before, signal.SIGKILL)
        expected = "the engine process was killed by signal 9 while the request ran; try again"
    else:
        with pytest.raises(ServiceUnavailableError):
            echo.generate(RawPrompt(end_engine), max_tokens=1)
        expected = "the engine process ended with status 1 while the request ran; try again"
    lost = next(completed)
    assert lost.index == 1
    assert isinstance(lost.outcome, ServiceUnavailableError)
    assert str(lost.outcome) == expected
    batch.join(60)
    assert [type(outcome) for outcome in outcomes] == [ServiceUnavailableError] * 2
    wait_until_serving(echo_server.address, 20)
    assert echo_server.engine_process_id() != before
    assert echo.generate("again", max_tokens=1).text == "again"


def test_a_request_that_ends_the_engine_is_sent_once_and_learns_why(
    echo: Client, echo_server: ServerProcess
) -> None:
    with pytest.raises(ServiceUnavailableError) as caught:
        echo.generate(RawPrompt("die"), max_tokens=1)
    assert str(caught.value) == (
        "the engine process was killed by signal 9 while the request ran; try again"
    )
    wait_until_serving(echo_server.address, 20)
    # A second engine would have got the request again, before this one.
    assert echo.generate("again", max_tokens=1).text == "again"
    assert echo_server.log.read_text().count("engine lost") == 1


def health_of(server: ServerProcess, service: str) -> str:
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        response = stub.Check(  # type: ignore[attr-defined]
            health_pb2.HealthCheckRequest(service=service), timeout=5
        )
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


def _is_not_serving(server: ServerProcess, service: str) -> bool:
    return health_of(server, service) == "NOT_SERVING"


def test_health_says_when_requests_are_taken(tmp_path: Path) -> None:
    settings = {"restart_backoff_seconds": "2", "retry_after_seconds": "0.05"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        for name in ("", "guided.v1.GenerationService"):
            assert health_of(server, name) == "SERVING"
        os.kill(server.engine_process_id(), signal.SIGKILL)
        for name in ("", "guided.v1.GenerationService"):
            eventually(partial(_is_not_serving, server, name), 1.0)
        with Client(server.address, retries=0) as client:
            (outcome,) = client.batch([raw("x")])
        assert isinstance(outcome, ServiceUnavailableError)
        assert str(outcome) == "the engine is starting; try again shortly"
        wait_until_serving(server.address, 10)


def test_a_call_that_could_not_be_taken_is_tried_again(tmp_path: Path) -> None:
    settings = {"restart_backoff_seconds": "0.5", "retry_after_seconds": "2"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        os.kill(server.engine_process_id(), signal.SIGKILL)
        eventually(partial(_is_not_serving, server, ""), 1.0)
        with Client(server.address) as client:
            assert client.generate("patience", max_tokens=1).text == "patience"


def test_requests_above_the_bound_are_told_to_come_again(tmp_path: Path) -> None:
    settings = {
        "max_requests_in_flight": "1",
        "max_requests_queued": "0",
        "max_batch_size": "1",
        "retry_after_seconds": "0.05",
    }
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        stream = client.stream(RawPrompt("wait"))
        next(stream)
        with pytest.raises(ServiceUnavailableError) as caught:
            client.with_options(retries=2).generate("one more", max_tokens=1)
        assert str(caught.value) == (
            "1 requests are in flight, 0 wait and 1 more came, above the limits of 1 and 0; "
            "try again shortly"
        )
        stream.close()
        assert client.generate("now", max_tokens=1).text == "now"


def test_a_call_above_a_limit_is_refused_with_the_limit(
    shared_echo: Client, shared_echo_server: ServerProcess
) -> None:
    batch = pb.GenerateBatchRequest(requests=[pb.GenerateRequest(text="x")] * 65)
    with (
        grpc.insecure_channel(shared_echo_server.address) as channel,
        pytest.raises(LimitExceededError) as caught,
        raising_guided_errors(),
    ):
        list(GenerationServiceStub(channel).GenerateBatch(batch))
    assert str(caught.value) == "the batch has 65 requests, above the limit of 64; split the batch"
    assert (caught.value.limit, caught.value.field) == (64, "requests")
    with pytest.raises(LimitExceededError, match="above the limit of 4194304; send less") as large:
        shared_echo.generate(RawPrompt("x" * 5_000_000))
    assert large.value.limit == 4194304


def _field(number: int, content: bytes) -> bytes:
    """A field of a message as protobuf writes it, be it a text or a message."""
    length = bytearray()
    left = len(content)
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7
    return bytes((number << 3 | 2, *length, left)) + content


@pytest.mark.parametrize("call", ["Generate", "GenerateStream", "GenerateBatch"])
def test_a_message_that_cannot_be_read_is_the_mistake_of_its_sender(
    shared_echo_server: ServerProcess, call: str
) -> None:
    """Nested beyond what protobuf reads, or no message at all."""
    constraint = pb.Constraint(text="a").SerializeToString()
    for _ in range(60):
        constraint = _field(9, _field(1, constraint))
    deep = _field(1, b"x") + _field(3, constraint)
    if call != "Generate":
        deep = _field(1, deep)
    with grpc.insecure_channel(shared_echo_server.address) as channel:
        make: Any = channel.unary_unary if call == "Generate" else channel.unary_stream
        method = make(f"/guided.v1.GenerationService/{call}")
        for message in (deep, b"\xff"):
            with pytest.raises(grpc.RpcError) as caught:
                next(iter(method(message)))
            failure: Any = caught.value
            assert failure.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "cannot be read as protobuf; nest its messages less" in failure.details()
    with Client(shared_echo_server.address) as client:
        assert client.generate(RawPrompt("on"), max_tokens=5).text == "on"


@pytest.mark.parametrize(
    "path",
    [
        *("guided.v1.GrammarService/List", "guided.v1.ModelService/GetStats"),
        *("grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"),
    ],
)
def test_a_message_that_is_none_is_the_callers_fault_to_every_service(
    shared_echo_server: ServerProcess, path: str
) -> None:
    with grpc.insecure_channel(shared_echo_server.address) as channel:
        method: Any = channel.unary_stream(f"/{path}")
        with pytest.raises(grpc.RpcError) as caught:
            next(iter(method(b"\xff")))
        failure: Any = caught.value
    assert failure.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("GenerationService/Generate", "GenerateRequest"),
        ("GenerationService/GenerateStream", "GenerateStreamRequest"),
        ("GenerationService/GenerateBatch", "GenerateBatchRequest"),
        ("GrammarService/List", "ListRequest"),
        ("GrammarService/Delete", "DeleteRequest"),
        ("ModelService/GetModel", "GetModelRequest"),
        ("ModelService/ListModels", "ListModelsRequest"),
        ("ModelService/GetStats", "GetStatsRequest"),
    ],
)
def test_what_a_newer_client_asks_for_is_refused_in_every_call(
    shared_echo_server: ServerProcess, call: str, message: str
) -> None:
    """A number, 1, in field 100."""
    with grpc.insecure_channel(shared_echo_server.address) as channel:
        is_stream = call.endswith(("Stream", "Batch"))
        make: Any = channel.unary_stream if is_stream else channel.unary_unary
        with pytest.raises(grpc.RpcError) as caught:
            list(make(f"/guided.v1.{call}")(b"\xa0\x06\x01"))
    failure: Any = caught.value
    assert failure.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.details().startswith(f"field number 100 of guided.v1.{message} is unknown")


def test_an_empty_batch_has_no_outcomes(shared_echo: Client) -> None:
    assert shared_echo.batch([]) == []


def has_ended(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    # One that has ended stays listed as a zombie until its parent asks.
    return not stat.exists() or stat.read_text().rpartition(") ")[2].startswith("Z")


def test_an_engine_ends_with_its_server(echo_server: ServerProcess) -> None:
    engine = echo_server.engine_process_id()
    echo_server.process.kill()
    eventually(partial(has_ended, engine))


def test_an_engine_that_is_loading_ends_with_its_server(tmp_path: Path) -> None:
    with listening(ECHO_SERVER, tmp_path / "log", {"model": "slow"}) as server:
        eventually(server.has_engine)
        engine = server.engine_process_id()
        time.sleep(1.0)
        server.process.kill()
        eventually(partial(has_ended, engine))


def test_a_process_knows_when_its_parent_is_another() -> None:
    assert not is_orphan(os.getppid())
    assert is_orphan(os.getppid() + 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_for_the_whole_group_does_not_take_the_engine_away(
    shared_echo: Client, shared_echo_server: ServerProcess, number: signal.Signals
) -> None:
    engine = shared_echo_server.engine_process_id()
    os.kill(engine, number)
    time.sleep(0.3)
    assert shared_echo.generate("still here", max_tokens=1).text == "still here"
    assert shared_echo_server.engine_process_id() == engine


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dtype": "float64"}, "guided: dtype 'float64' is none of 'float32'\n"),
        (
            {"model": "unreadable"},
            "guided: the model 'unreadable' cannot be read; choose another\n",
        ),
        (
            {"model": "broken"},
            "guided: the engine process ended with status 1 before its model was loaded; "
            "its own output says why\n",
        ),
    ],
)
def test_a_server_whose_engine_does_not_start_says_so_and_fails(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    with listening(ECHO_SERVER, tmp_path / "log", settings) as server:
        assert server.wait(10) == 1
        log = server.log.read_text()
    assert log.endswith(said)
    assert ("Traceback" in log) == (settings == {"model": "broken"})


def test_a_server_that_is_loading_can_be_stopped(tmp_path: Path) -> None:
    with listening(ECHO_SERVER, tmp_path / "log", {"model": "slow"}) as server:
        assert health_of(server, "") == "NOT_SERVING"
        with pytest.raises(ServiceUnavailableError) as caught:
            wait_until_serving(server.address, 0.3)
        assert str(caught.value) == (
            f"{server.address} did not say SERVING within 0.3 s; its last state is NOT_SERVING; "
            "check the server's log, or wait longer"
        )
        server.ask_to_stop()
        assert server.wait(5) == 0


# The transport would be content with the free one of the two addresses of ``localhost``.
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_is_taken_is_refused(
    tmp_path: Path, shared_echo_server: ServerProcess, host: str
) -> None:
    port = shared_echo_server.address.rpartition(":")[2]
    log = tmp_path / "second"
    # Its output in place of the line that says it is listening.
    with (
        pytest.raises(AssertionError, match="said '' and logged"),
        listening(ECHO_SERVER, log, {"host": host, "port": port}),
    ):
        pass
    assert log.read_text() == (
        f"guided: cannot listen on {host}:{port}: port {port} is in use; "
        "choose another host or port; port 0 takes a free one\n"
    )


def test_no_server_is_an_error_of_the_library() -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(ServiceUnavailableError) as caught:
        client.generate("anyone there?", timeout=5)
    assert str(caught.value).endswith("; check the address, and that the server runs")


def test_a_closed_client_says_so(shared_echo_server: ServerProcess) -> None:
    client = Client(shared_echo_server.address)
    client.close()
    with pytest.raises(RequestError, match="the client is closed; make another"):
        client.generate("hello")
    with pytest.raises(RequestError, match="the client is closed; make another"):
        client.batch([raw("hello")])

    async def talk() -> None:
        closed = AsyncClient(shared_echo_server.address)
        await closed.close()
        with pytest.raises(RequestError, match="the client is closed; make another"):
            await closed.generate("hello")
        with pytest.raises(RequestError, match="the client is closed; make another"):
            await closed.batch([raw("hello")])

    asyncio.run(talk())
