"""Each request leaves one line in the server's log, and its caller can name it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from structlog.testing import capture_logs

from guided.client import Client, RawPrompt, wait_until_serving
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    IncompleteAnswerError,
    InternalServiceError,
    InvalidConstraintError,
)
from guided.spec import FinishReason, GenerationResult, Lark, Usage
from guided.v1 import generation_pb2 as pb
from guided.v1 import model_pb2
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided.v1.model_pb2_grpc import ModelServiceStub
from guided_service.request_log import RequestLog
from guided_service.request_record import (
    RequestRecord,
    note_admitted,
    note_answered,
    recorded,
)
from guided_service.request_watch import is_past_deadline
from guided_service.status import REQUEST_ID_TRAILER
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually

SECRET = "the-secret-of-the-prompt"


@dataclass(frozen=True)
class Logged(ServerProcess):
    """A server, and its log from a moment on."""

    begun: int
    """The length of its log until then, in characters."""

    def text(self) -> str:
        return self.log.read_text()[self.begun :]


@pytest.fixture(scope="module")
def logging_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that logs as JSON, as any does whose log goes to a file."""
    log = tmp_path_factory.mktemp("logged") / "log"
    with serving(ECHO_SERVER, log, {"log_format": "auto"}) as server:
        yield server


@pytest.fixture
def logged(logging_server: ServerProcess) -> Logged:
    """The server's log from now on: each test waits for the lines of all of its requests."""
    begun = len(logging_server.log.read_text())
    return Logged(logging_server.process, logging_server.address, logging_server.log, begun)


def lines(server: ServerProcess) -> list[dict[str, Any]]:
    """Every line of the log; each has to be JSON."""
    text = server.text() if isinstance(server, Logged) else server.log.read_text()
    # Text after the last line break is still being written.
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def requests(server: ServerProcess, count: int, event: str = "request") -> list[dict[str, Any]]:
    """The lines of ``count`` requests, once they are there."""
    deadline = time.monotonic() + 20
    while len(found := [line for line in lines(server) if line["event"] == event]) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    assert len(found) == count
    return found


def test_what_python_warns_of_is_a_line_like_others(logged: Logged) -> None:
    """A pattern that later versions of Python may read in another way causes a warning."""
    with Client(logged.address) as client:
        client.grammars.check(grammar=Lark("start: /[[a]/"))
    eventually(lambda: any("FutureWarning" in line["event"] for line in lines(logged)))
    (line,) = [line for line in lines(logged) if "FutureWarning" in line["event"]]
    assert (line["level"], "Possible nested set" in line["event"]) == ("warning", True)


def test_a_request_is_logged_with_what_it_cost_and_without_its_words(
    logged: Logged,
) -> None:
    with Client(logged.address) as client:
        client.generate(RawPrompt(json.dumps(SECRET)), schema={"const": SECRET}, max_tokens=1)
    (line,) = requests(logged, 1)
    assert line["method"] == "Generate"
    assert line["status"] == "OK"
    assert line["level"] == "info"
    assert line["constraint"] == "json_schema"
    assert line["finish_reason"] == "stop"
    assert line["peer"].startswith("ipv4:127.0.0.1:")
    assert (line["prompt_tokens"], line["reused_tokens"]) == (1, 2)
    assert (line["output_tokens"], line["forced_tokens"], line["model_calls"]) == (7, 4, 0)
    assert 0 <= line["queue_seconds"] < line["seconds"]
    # The engine of the tests reports these times for every answer, and no waiting.
    assert (line["compile_seconds"], line["wait_seconds"], line["decode_seconds"]) == (0, 0, 0.25)
    assert len(line["request_id"]) == 32
    assert "error" not in line
    assert SECRET not in logged.text()


@pytest.mark.parametrize(
    ("prompt", "options", "kind", "status", "code"),
    [
        ("refuse", {}, InvalidConstraintError, "INVALID_ARGUMENT", "INVALID_CONSTRAINT"),
        ("fail later", {"max_tokens": 9}, InvalidConstraintError, "INVALID_ARGUMENT",
         "INVALID_CONSTRAINT"),
        ("bug in submit", {}, InternalServiceError, "INTERNAL", "INTERNAL"),
        ("cut", {"max_tokens": 9, "on_incomplete": "error"}, IncompleteAnswerError, "OUT_OF_RANGE",
         "INCOMPLETE_ANSWER"),
        ("wait", {"timeout": 0.3}, DeadlineExceededError, "DEADLINE_EXCEEDED", None),
    ],
)  # fmt: skip
def test_an_error_names_the_request_that_the_log_has(
    logged: Logged,
    prompt: str,
    options: dict[str, Any],
    kind: type[GuidedError],
    status: str,
    code: str | None,
) -> None:
    with Client(logged.address) as client, pytest.raises(kind) as caught:
        client.generate(RawPrompt(prompt), **options)
    (line,) = requests(logged, 1)
    # At a deadline the caller's own transport gives up; a busy server may notice that first.
    assert line["status"] == status or (code is None and line["status"] == "CANCELLED")
    assert line["seconds"] > 0
    if code is not None:
        assert line["error"] == code
        assert caught.value.request_id == line["request_id"]
    assert ("output_tokens" in line) == (kind is IncompleteAnswerError)


@pytest.mark.parametrize(
    ("remaining", "passed", "is_past"),
    [
        (None, 60.0, False),  # no deadline
        (0.0, 0.3, True),
        (0.04, 0.26, True),  # the caller's clock was first
        (0.8, 98.6, True),  # 99.4 s are sent as 100
        (0.3, 0.3, False),
        (5.0, 95.0, False),
    ],
)
def test_a_call_that_is_left_at_its_deadline_was_ended_by_it(
    remaining: float | None, passed: float, is_past: bool
) -> None:
    assert is_past_deadline(remaining, passed) == is_past


def test_a_fault_is_logged_with_the_id_of_its_request(logged: Logged) -> None:
    with Client(logged.address) as client, pytest.raises(InternalServiceError) as caught:
        client.generate(RawPrompt("bug in submit"))
    incident = caught.value.message.removeprefix("the service failed; incident ")
    (fault,) = [line for line in lines(logged) if incident in line["event"]]
    assert fault["request_id"] == caught.value.request_id
    assert fault["level"] == "error"
    assert "KeyError: 'secret'" in fault["exception"]
    requests(logged, 1)


def test_each_request_of_a_batch_has_a_line_and_an_id_of_its_own(logged: Logged) -> None:
    asked = [pb.GenerateRequest(text=text, max_tokens=1) for text in ("one", "refuse", "three")]
    asked[2].request_id = "mine"
    with grpc.insecure_channel(logged.address) as channel:
        batch = GenerationServiceStub(channel).GenerateBatch
        outcomes = list(batch(pb.GenerateBatchRequest(requests=asked), timeout=30))
    (refused,) = [one.error for one in outcomes if one.index == 1]
    found = {line["index"]: line for line in requests(logged, 3)}
    (whole,) = requests(logged, 1, "batch")
    assert [found[index]["status"] for index in range(3)] == ["OK", "INVALID_ARGUMENT", "OK"]
    assert ids_in(refused) == [found[1]["request_id"]]
    assert found[2]["request_id"] == "mine"
    assert len({line["request_id"] for line in (*found.values(), whole)}) == 4
    assert {line["call_id"] for line in found.values()} == {whole["request_id"]}
    assert (whole["status"], whole["method"]) == ("OK", "GenerateBatch")


def test_a_stream_that_is_given_up_is_logged_as_cancelled(logged: Logged) -> None:
    with Client(logged.address) as client:
        with client.stream(RawPrompt("a text of many pieces"), max_tokens=100_000) as stream:
            next(stream)
        with client.stream(RawPrompt("read"), max_tokens=4) as stream:
            assert "".join(stream) == "read"
    found = {line["status"]: line for line in requests(logged, 2)}
    assert found["OK"]["method"] == "GenerateStream"
    assert found["OK"]["output_tokens"] == 7
    assert "output_tokens" not in found["CANCELLED"]


def test_the_trailing_metadata_of_every_call_has_its_id(logged: Logged) -> None:
    def id_of(call: Any) -> str:
        return str(dict(call.trailing_metadata())[REQUEST_ID_TRAILER])

    def refused(make: Callable[[], object]) -> Any:
        with pytest.raises(grpc.RpcError) as caught:
            make()
        return caught.value

    with grpc.insecure_channel(logged.address) as channel:
        stub = GenerationServiceStub(channel)
        good, bad = (pb.GenerateRequest(text=text, max_tokens=1) for text in ("hi", "refuse"))
        _, call = stub.Generate.with_call(good)
        stream = stub.GenerateStream(pb.GenerateStreamRequest(request=good))
        assert list(stream)
        error = refused(lambda: stub.Generate(bad))
        unreadable: Any = channel.unary_unary("/guided.v1.GenerationService/Generate")
        garbage = refused(lambda: unreadable(b"\xff"))
        ids = [id_of(each) for each in (call, stream, error, garbage)]
    found = requests(logged, 4)
    assert ids == [line["request_id"] for line in found]
    assert [line["status"] for line in found] == ["OK", "OK", *["INVALID_ARGUMENT"] * 2]
    trailers: dict[str, Any] = dict(error.trailing_metadata())
    assert ids_in(status_pb2.Status.FromString(trailers["grpc-status-details-bin"])) == [ids[2]]


def test_a_request_has_the_name_that_its_caller_gave_it(logged: Logged) -> None:
    asked = pb.GenerateRequest(text="hi", max_tokens=1, request_id="job-7")
    with grpc.insecure_channel(logged.address) as channel:
        stub = GenerationServiceStub(channel)
        _, call = stub.Generate.with_call(asked, timeout=30)
        assert dict(call.trailing_metadata())[REQUEST_ID_TRAILER] == "job-7"
        with Client(logged.address) as client, pytest.raises(InternalServiceError) as caught:
            client.generate(RawPrompt("bug in submit"), request_id="job-8")
        unreadable: Any = channel.unary_unary("/guided.v1.GenerationService/Generate")
        with pytest.raises(grpc.RpcError):
            unreadable(b"\xff", timeout=30)
    first, second, nameless = requests(logged, 3)
    assert (first["request_id"], second["request_id"]) == ("job-7", "job-8")
    assert caught.value.request_id == "job-8"
    assert len(nameless["request_id"]) == 32
    # In the engine's process, too.
    (fault,) = [line for line in lines(logged) if "exception" in line]
    assert fault["request_id"] == "job-8"


def test_a_request_that_comes_again_has_a_line_without_what_it_cost(
    logged: Logged,
) -> None:
    asked = pb.GenerateRequest(text="slow", max_tokens=1500, request_id="job-9")
    other = pb.GenerateRequest(text="other", max_tokens=1, request_id="job-9")
    with grpc.insecure_channel(logged.address) as channel, Client(logged.address) as client:
        stub = GenerationServiceStub(channel)
        first = stub.Generate.future(asked, timeout=30)
        eventually(lambda: client.stats().running == 1)
        broken = stub.Generate.future(asked, timeout=30)
        joining = stub.Generate.future(asked, timeout=30)
        # Comes after both calls, which have joined it a moment later.
        ModelServiceStub(channel).GetModel(model_pb2.GetModelRequest(), timeout=30)
        time.sleep(0.3)
        broken.cancel()
        assert first.result().text == joining.result().text == "slow"
        assert stub.Generate(asked, timeout=30).text == "slow"
        with pytest.raises(grpc.RpcError):
            stub.Generate(other, timeout=30)
    found = requests(logged, 5)
    assert {line["request_id"] for line in found} == {"job-9"}
    told = sorted((line["status"], line.get("repeat", False)) for line in found)
    assert told == [
        ("CANCELLED", True),
        ("INVALID_ARGUMENT", False),
        *[("OK", False), ("OK", True), ("OK", True)],
    ]
    assert [line["repeat"] for line in found if "repeat" in line] == [True] * 3
    costly = [line for line in found if "output_tokens" in line]
    assert [line.get("repeat") for line in costly] == [None]


def test_what_becomes_of_an_answer_after_its_first_call_has_ended_is_not_that_calls() -> None:
    """Its connection broke, and the answer continues for another call, which has joined it."""
    record = RequestRecord("service", "Generate", "peer", "chat")
    with recorded(record):
        making = copy_context()
    making.run(note_admitted)
    making.run(note_answered, GenerationResult("x", (), FinishReason.STOP, Usage(), seconds=1.0))
    assert (record.admitted, record.answered, record.usage) == (None, None, None)


def ids_in(status: status_pb2.Status) -> list[str]:
    named = error_details_pb2.RequestInfo()
    return [named.request_id for detail in status.details if detail.Unpack(named)]


def test_who_waits_and_who_is_turned_away_are_logged_as_such(tmp_path: Path) -> None:
    settings = {
        "log_format": "json",
        "max_requests_in_flight": "1",
        "max_batch_size": "1",
        "max_requests_queued": "1",
    }
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        with client.stream(RawPrompt("slow"), max_tokens=400) as first:
            next(first)
            asked = pb.GenerateBatchRequest(requests=[pb.GenerateRequest(text="x")] * 2)
            with grpc.insecure_channel(server.address) as channel:
                batch = GenerationServiceStub(channel).GenerateBatch(asked, timeout=30)
                with pytest.raises(grpc.RpcError, match="above the limit of 1"):
                    list(batch)
            second = client.generate(RawPrompt("waits"), max_tokens=1)
        assert second.text == "waits"
        (refused,) = requests(server, 1, "batch")
        waited = next(line for line in requests(server, 2) if line["method"] == "Generate")
    assert (refused["status"], refused["error"]) == ("INVALID_ARGUMENT", "LIMIT_EXCEEDED")
    assert waited["queue_seconds"] > 0.1


def test_a_level_leaves_lines_out(tmp_path: Path) -> None:
    settings = {"log_format": "json", "log_level": "error"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        client.generate(RawPrompt("hi"), max_tokens=1)
        with pytest.raises(InternalServiceError):
            client.generate(RawPrompt("bug in submit"))
        found = lines(server)
    assert [line["level"] for line in found] == ["error"]


def test_a_server_need_not_log_requests(tmp_path: Path) -> None:
    settings = {"log_format": "json", "log_requests": "false"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        with pytest.raises(InternalServiceError) as caught:
            client.generate(RawPrompt("bug in submit"))
        found = lines(server)
    assert {line["event"] for line in found} & {"request", "batch"} == set()
    assert caught.value.request_id in {line.get("request_id") for line in found}


def test_lines_to_read_are_no_json(tmp_path: Path) -> None:
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"log_format": "console"}) as server,
        Client(server.address) as client,
    ):
        client.generate(RawPrompt("hi"), max_tokens=1)
        deadline = time.monotonic() + 20
        while "status=OK" not in (log := server.log.read_text()):
            assert time.monotonic() < deadline, log
            time.sleep(0.02)
    assert "{" not in log


def test_the_times_of_an_answer_add_up(client: Client, server: ServerProcess) -> None:
    """With the default model, whose server logs readable lines."""
    before = len(server.log.read_text())
    answer = client.generate("Name a colour.", max_tokens=8, schema={"enum": ["red", "blue"]})
    # The client does not return the trailing metadata of an answer, so its tokens have to do.
    told = f"output_tokens={answer.usage.output_tokens}"
    deadline = time.monotonic() + 20
    while not (
        found := [one for one in server.log.read_text()[before:].splitlines() if told in one]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    seconds = {
        name: float(value) for name, value in re.findall(r"(\w+_seconds)=([0-9.e-]+)", found[-1])
    }
    assert seconds.keys() == {
        f"{each}_seconds" for each in ("queue", "compile", "wait", "prefill", "decode")
    }
    in_engine = sum(seconds.values()) - seconds["queue_seconds"]
    assert in_engine == pytest.approx(answer.seconds, abs=1e-3)
    assert seconds["prefill_seconds"] > 0


def test_a_log_that_nobody_reads_keeps_nobody_from_being_served() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    environment = os.environ | {"GUIDED_PORT": "0", "GUIDED_LOG_FORMAT": "json"}
    with subprocess.Popen(
        ECHO_SERVER, stdout=subprocess.PIPE, stderr=writing, text=True, env=environment
    ) as process:
        os.close(writing)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().partition("listening on ")[2]
            wait_until_serving(address, 60)
            with Client(address, timeout=60) as client:
                for _ in range(40):
                    assert client.generate(RawPrompt("hi"), max_tokens=1).text == "hi"
            process.terminate()
            # Once the log is read again every line is there, because the last ones are awaited.
            with os.fdopen(reading) as log:
                events = [json.loads(line)["event"] for line in log]
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert events.count("request") == 40


def test_lines_beyond_the_bound_are_lost_and_counted() -> None:
    may_write, written = threading.Semaphore(0), list[RequestRecord]()

    def write(record: RequestRecord) -> None:
        may_write.acquire()
        written.append(record)

    log = RequestLog(write, most_lines=2)
    records = [RequestRecord("service", str(number), "peer", "chat") for number in range(9)]
    with capture_logs() as told:
        log.add(records[0])
        eventually(lambda: log._waiting.empty())  # it is being written
        for record in records[1:]:
            log.add(record)
        may_write.release(9)
        eventually(lambda: len(written) == 3)
        log.close()
    assert written == records[:3]
    assert [(line["event"], line["count"]) for line in told] == [("lines of requests were lost", 6)]
