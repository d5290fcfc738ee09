"""The service on a Ray cluster of three nodes, called by the client as any server is.

``make test-ray`` runs these in an environment of their own. Engines echo: these tests check how
calls reach them and return.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from pydantic import BaseModel, Field

pytest.importorskip("ray", reason="make test-ray runs these")

from guided import (
    Answer,
    Client,
    DeadlineExceededError,
    InternalServiceError,
    RawPrompt,
    Request,
    RequestError,
    ServiceUnavailableError,
    UnknownConstraintError,
)
from guided.client.status import raising_guided_errors
from guided.error_record import DETAILS_TRAILER
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from tests.kit.tiny_model import save_tiny_model
from tests.ray.cluster import Serving, echo_config, serve, serving
from tests.ray.kills import ask_while_engines_are_killed
from tests.service.test_supervision import eventually

ENGINES = 2
LOST = "the engine ended while the request ran; try again"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("ray"), ENGINES) as found:
        yield found


@pytest.fixture
def client(served: Serving) -> Iterator[Client]:
    with Client(served.address) as client:
        yield client


@pytest.fixture
def stub(served: Serving) -> Iterator[GenerationServiceStub]:
    with grpc.insecure_channel(served.address) as channel:
        yield GenerationServiceStub(channel)


def test_an_answer(client: Client) -> None:
    assert client.generate(RawPrompt("hello"), max_tokens=3).text == "hello"
    assert client.model().name == "echo"


def test_a_stream_grows(client: Client) -> None:
    with client.stream(RawPrompt("hello"), max_tokens=5) as stream:
        assert "".join(stream) == "hello"
        assert stream.answer.text == "hello"


def test_errors_keep_their_kind_place_and_details(
    client: Client, stub: GenerationServiceStub
) -> None:
    with pytest.raises(RequestError, match="max_tokens 0 is below 1") as of_message:
        list(stub_stream(stub, pb.GenerateRequest(text="hello", max_tokens=0)))
    assert of_message.value.field == "max_tokens"
    with pytest.raises(RequestError, match="the rest is odd"):
        client.generate(RawPrompt("fail later"), max_tokens=5)
    with pytest.raises(UnknownConstraintError, match="no stored constraint 'none'"):
        list(stub_stream(stub, stored("none")))
    with pytest.raises(InternalServiceError, match="incident"):
        client.generate(RawPrompt("bug in submit"), max_tokens=5)


def stored(constraint_id: str) -> pb.GenerateRequest:
    constraint = pb.Constraint(constraint_id=constraint_id)
    return pb.GenerateRequest(text="hello", constraint=constraint)


def stub_stream(
    stub: GenerationServiceStub, request: pb.GenerateRequest
) -> Iterator[pb.GenerateStreamResponse]:
    """The messages of a stream that is not checked before it is sent."""
    with raising_guided_errors():
        yield from stub.GenerateStream(pb.GenerateStreamRequest(request=request))


def test_a_message_that_cannot_be_read_is_told_so(served: Serving) -> None:
    with grpc.insecure_channel(served.address) as channel:
        call: Any = channel.unary_unary("/guided.v1.GenerationService/Generate")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff")
    error = caught.value
    assert isinstance(error, grpc.Call)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert DETAILS_TRAILER in dict(error.trailing_metadata() or ())


def test_constraints_are_kept_and_checked(client: Client) -> None:
    kept = client.grammars.compile(int)
    assert [each.constraint_id for each in client.grammars.list()] == [kept.constraint_id]
    client.grammars.delete(kept.constraint_id)
    assert client.grammars.list() == []


def test_a_deadline_ends_a_request_in_its_engine(client: Client) -> None:
    before = client.stats().cancelled
    with pytest.raises(DeadlineExceededError):
        client.generate(RawPrompt("wait"), max_tokens=3, timeout=0.5)
    eventually(lambda: client.stats().cancelled > before)  # engines report it every second


def test_a_stream_that_is_left_ends_in_its_engine(client: Client) -> None:
    before = client.stats().cancelled
    with client.stream(RawPrompt("wait"), max_tokens=3) as stream:
        next(iter(stream))
    eventually(lambda: client.stats().cancelled > before)


def test_a_batch_is_spread_and_comes_in_order_of_completion(stub: GenerationServiceStub) -> None:
    requests = [pb.GenerateRequest(text=f"who {i}", max_tokens=20) for i in range(32)]
    requests[0].max_tokens = 1000  # the longest comes last
    came = list(stub.GenerateBatch(pb.GenerateBatchRequest(requests=requests)))
    assert sorted(each.index for each in came) == list(range(32))
    assert came[-1].index == 0
    engines = Counter(each.response.text for each in came)
    assert len(engines) == ENGINES
    assert min(engines.values()) >= 8


def test_what_begins_alike_goes_to_one_engine(client: Client) -> None:
    def engine_of(prompt: str) -> str:
        return client.generate(RawPrompt(f"who {prompt}"), max_tokens=2).text

    first = [engine_of(f"{i} {'x' * 600}") for i in range(30)]
    assert len(set(first)) == ENGINES, "prompts that have nothing in common go anywhere"
    for i, engine in enumerate(first[:8]):
        assert {engine_of(f"{i} {'x' * 600} {j}") for j in range(4)} == {engine}


def test_engines_killed_under_load_lose_nothing(served: Serving) -> None:
    requests = [Request(RawPrompt(f"item {i}"), max_tokens=50) for i in range(1000)]
    came = ask_while_engines_are_killed(
        served,
        requests,
        is_right=lambda i, text: text == f"item {i}",
        is_due=lambda ended: ended >= 20,
        at_once=200,
    )
    assert (came.lost, came.twice, came.wrong) == ((), (), ())
    assert came.kills >= 1
    assert came.told.keys() <= {LOST}
    assert came.told.total() <= came.kills * 64, "only what ran on those that were killed"
    assert came.answered + came.told.total() == len(requests)


def test_items_of_a_batch_are_told_of_the_engine_that_was_lost(
    served: Serving, stub: GenerationServiceStub
) -> None:
    requests = [pb.GenerateRequest(text=f"item {i}", max_tokens=1000) for i in range(32)]
    call = stub.GenerateBatch(pb.GenerateBatchRequest(requests=requests))
    time.sleep(0.5)  # they run for twice as long
    name, process = served.replicas().popitem()
    os.kill(process, signal.SIGKILL)
    came = list(call)
    served.wait_for(ENGINES, name)
    assert sorted(each.index for each in came) == list(range(32))
    lost = [each for each in came if each.HasField("error")]
    assert 0 < len(lost) < 32
    assert {each.error.message for each in lost} == {LOST}
    assert {each.error.code for each in lost} == {grpc.StatusCode.UNAVAILABLE.value[0]}


def test_while_an_engine_is_made_again_requests_go_to_the_others(served: Serving) -> None:
    with Client(served.address, retries=0) as client:
        process = int(client.generate(RawPrompt("who"), max_tokens=9).text)
        os.kill(process, signal.SIGKILL)
        asked = [Request(RawPrompt(f"item {i}"), max_tokens=2) for i in range(100)]
        came = [each.outcome for each in client.as_completed(asked)]
        lost = {str(each) for each in came if not isinstance(each, Answer)}
        assert lost <= {LOST}, "only what had come to it before it was missed"
        for i in range(20):
            with client.stream(RawPrompt(f"item {i}"), max_tokens=6) as stream:
                assert "".join(stream) == f"item {i}"


def test_callers_are_told_of_the_ingress_that_was_lost(served: Serving, client: Client) -> None:
    with Client(served.address, retries=0) as impatient, ThreadPoolExecutor(1) as thread:
        lost: Future[object] = thread.submit(impatient.generate, RawPrompt("wait"), max_tokens=3)
        time.sleep(0.5)
        (process,) = served.replicas("Ingress").values()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ServiceUnavailableError, match="the ingress ended while the request"):
            lost.result()
    # Until the next one is there, calls wait for it.
    assert client.generate(RawPrompt("hello"), max_tokens=3).text == "hello"


def test_an_upgrade_fails_no_request(served: Serving) -> None:
    before, ended = served.replicas(), threading.Event()
    said: list[str] = []

    def ask() -> None:
        with Client(served.address, retries=0) as client:
            while not ended.is_set():
                said.append(client.generate(RawPrompt("hello"), max_tokens=20).text)

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask) for _ in range(4)]
        try:
            served.deploy(echo_config(served.port, ENGINES, max_batch_size=32))
        finally:
            ended.set()
        for each in asking:
            each.result()
    assert set(said) == {"hello"}
    assert not before.keys() & served.wait_for(ENGINES, *before).keys()


def test_settings_are_checked_before_anything_is_deployed(served: Serving, client: Client) -> None:
    def who() -> str:
        return client.generate(RawPrompt("who"), max_tokens=9).text

    engine = who()
    config = echo_config(served.port, ENGINES, modell="x")
    with pytest.raises(AssertionError, match="args sets 'modell'"):
        served.deploy(config)
    assert who() == engine, "what ran goes on"


def test_engines_come_and_go_with_the_requests_there_are(
    served: Serving, stub: GenerationServiceStub
) -> None:
    scaled = echo_config(served.port, 1)
    (engine,) = scaled["applications"][0]["deployments"]
    del engine["num_replicas"]
    engine["autoscaling_config"] = {
        "min_replicas": 1,
        "max_replicas": 2,
        "target_ongoing_requests": 4,
        "upscale_delay_s": 1,
        "downscale_delay_s": 1,
        "metrics_interval_s": 1,
        "look_back_period_s": 2,
        "policy": {"policy_function": "guided_service.ray.scaling:by_queue_and_cache"},
    }
    served.deploy(scaled)
    served.wait_for(1)  # there are no requests
    waiting = [
        stub.Generate.future(pb.GenerateRequest(text="wait", max_tokens=3)) for _ in range(8)
    ]
    served.wait_for(2)
    for call in waiting:
        call.cancel()
    served.wait_for(1)


def test_serve_builds_a_config_of_the_environment() -> None:
    assert "request_router_class: guided_service.ray.router:AffinityRouter" in serve(
        "build", "guided_service.ray.environment_app:app"
    )


def model_name(client: Client) -> str | None:
    """The name of the model, if there is one now."""
    try:
        return client.model().name
    except ServiceUnavailableError:
        return None


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=150)


def test_a_model_answers_within_its_schema(served: Serving, tmp_path: Path) -> None:
    config = echo_config(served.port, 1, model=str(save_tiny_model(tmp_path / "model")), threads=1)
    config["applications"][0]["import_path"] = "guided_service.ray.app:build"
    served.file.write_text(yaml.safe_dump(config))
    serve("deploy", str(served.file), f"--address={served.dashboard}")
    with Client(served.address) as client:
        while model_name(client) in (None, "echo"):
            time.sleep(0.5)
        answer = client.generate("Who?", Person, max_tokens=60)
        assert isinstance(answer.value, Person)
        with client.stream("Who?", Person, max_tokens=60) as stream:
            said = "".join(stream)
    assert Person.model_validate_json(said) == answer.value
