"""Calls that come through Ray are answered by the handlers of the server, with its errors."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from guided.bearer import new_token, token_hash
from guided.error_record import DETAILS_TRAILER
from guided.errors import ServiceUnavailableError
from guided.testing.walking_model import WalkingModel
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import add_GenerationServiceServicer_to_server
from guided_service.authentication import Authenticates
from guided_service.config import ServerConfig
from guided_service.engine_connection import CutOffError
from guided_service.health import HealthServicer
from guided_service.intake import Intake, Readers
from guided_service.ray.calls import CallContext, Calls
from guided_service.ray.messages import error_of, failed, read_reply, write_reply
from guided_service.ray.proxied import METHOD, SECONDS_LEFT, _explain
from guided_service.server import METHODS
from guided_service.servicers import GenerationServicer
from guided_service.status import REQUEST_ID_TRAILER
from guided_service.token_book import TokenBook

PATH = "/guided.v1.GenerationService/"


@dataclass
class RayContext:
    """The used part of Ray's context."""

    metadata: list[tuple[str, str]]
    status: grpc.StatusCode | None = None
    details: str = ""
    trailers: dict[str, Any] = field(default_factory=dict)

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return self.metadata

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5000"

    def peer_identities(self) -> None:
        return None

    def code(self) -> grpc.StatusCode | None:
        return self.status

    def set_code(self, code: grpc.StatusCode) -> None:
        self.status = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, trailers: list[tuple[str, Any]]) -> None:
        self.trailers = dict(trailers)


@dataclass
class ProxyContext:
    """The same call in the proxy, where Ray has set on it what came back."""

    ended: RayContext

    def code(self) -> grpc.StatusCode | None:
        return self.ended.status

    def details(self) -> str:
        return self.ended.details

    def trailing_metadata(self) -> list[tuple[str, Any]]:
        return [*self.ended.trailers.items()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ended, name)


def context(method: str, seconds: float | None = None, **sent: str) -> RayContext:
    left = [] if seconds is None else [(SECONDS_LEFT, repr(seconds))]
    return RayContext([*sent.items(), (METHOD, PATH + method), *left])


def calls(*replies: str, guard: tuple[Authenticates, ...] = ()) -> Calls:
    config = ServerConfig.model_construct()
    readers = Readers()
    servicer = GenerationServicer(WalkingModel(replies), config, readers)
    found = Calls((*guard, Intake(METHODS, config, readers, servicer.door)))
    server: Any = found
    add_GenerationServiceServicer_to_server(servicer, server)
    return found


def test_an_answer() -> None:
    async def scenario() -> None:
        told = context("Generate", seconds=30.0, who="me")
        call = CallContext(told)
        assert call.invocation_metadata() == [("who", "me")]
        remaining = call.time_remaining()
        assert remaining is not None
        assert 29 < remaining <= 30
        message = pb.GenerateRequest(text="hello").SerializeToString()
        content = await calls("world").answer(message, call)
        assert pb.GenerateResponse.FromString(content).text == "world"
        assert told.status is None

    asyncio.run(scenario())


def test_errors_are_set_with_their_details() -> None:
    async def scenario() -> None:
        for message in (pb.GenerateRequest(text="x", max_tokens=0).SerializeToString(), b"\xff"):
            told = context("Generate")
            assert await calls("world").answer(message, CallContext(told)) == b""
            assert told.status is grpc.StatusCode.INVALID_ARGUMENT
            status = status_pb2.Status.FromString(told.trailers[DETAILS_TRAILER])
            assert status.message == told.details
            assert status.details[0].Is(error_details_pb2.ErrorInfo.DESCRIPTOR)

    asyncio.run(scenario())


def test_a_status_without_details_stays_as_it_is_on_its_way_through_the_proxy() -> None:
    """Of Ray's own statuses NOT_FOUND means that no application is there to be asked."""

    async def scenario() -> None:
        found: Any = Calls(())
        add_HealthServicer_to_server(HealthServicer("guided.v1.GenerationService", 1), found)
        told = RayContext([(METHOD, "/grpc.health.v1.Health/Check")])
        message = health_pb2.HealthCheckRequest(service="other").SerializeToString()
        call = CallContext(told)
        call.set_trailing_metadata([(REQUEST_ID_TRAILER, "1")])
        assert await found.answer(message, call) == b""
        _explain(ProxyContext(told))
        assert told.trailers.keys() == {REQUEST_ID_TRAILER, DETAILS_TRAILER}
        assert told.status is grpc.StatusCode.NOT_FOUND
        assert told.details == "there is no service 'other'"
        of_ray = RayContext([], grpc.StatusCode.NOT_FOUND, "no application")
        _explain(ProxyContext(of_ray))
        assert of_ray.status is grpc.StatusCode.UNAVAILABLE

    asyncio.run(scenario())


def test_a_stream_ends_with_a_message_that_brings_its_status() -> None:
    async def scenario() -> None:
        request = pb.GenerateRequest(text="hello")
        message = pb.GenerateStreamRequest(request=request).SerializeToString()
        stream = calls("world").stream(message, CallContext(context("GenerateStream")))
        *parts, last = [part async for part in stream]
        said = [pb.GenerateStreamResponse.FromString(part) for part in parts]
        assert said[-1].answer.text == "world"
        assert last == b""
        told = context("GenerateStream")
        assert [part async for part in calls().stream(b"\xff", CallContext(told))] == [b""]
        assert told.status is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(scenario())


def test_a_stream_that_is_cancelled_from_within_ends_and_says_so() -> None:
    async def stream(_: object, call: CallContext) -> None:
        await call.write(pb.GenerateStreamResponse())
        raise asyncio.CancelledError

    async def scenario() -> None:
        found = Calls(())
        handler: Any = grpc.unary_stream_rpc_method_handler(stream)
        found.add_registered_method_handlers(PATH.strip("/"), {"GenerateStream": handler})
        told = context("GenerateStream")
        async with asyncio.timeout(60):
            assert [part async for part in found.stream(b"", CallContext(told))][-1] == b""
        assert told.status is grpc.StatusCode.CANCELLED

    asyncio.run(scenario())


def test_a_caller_who_leaves_a_stream_ends_its_handler() -> None:
    ended: list[str] = []

    async def stream(_: object, call: CallContext) -> None:
        try:
            while True:
                await call.write(pb.GenerateRequest(text="x"))
        finally:
            ended.append("handler")

    async def scenario() -> None:
        found = Calls(())
        handler: Any = grpc.unary_stream_rpc_method_handler(stream)
        found.add_registered_method_handlers(PATH.strip("/"), {"GenerateStream": handler})
        async with asyncio.timeout(60):
            async with aclosing(found.stream(b"", CallContext(context("GenerateStream")))) as parts:
                await anext(parts)
        assert ended == ["handler"]

    asyncio.run(scenario())


def test_tokens_are_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        token, file = new_token(), tmp_path / "tokens.toml"
        file.write_text(f'[alice]\nsha256 = "{token_hash(token)}"\n')
        guard = Authenticates(TokenBook(file), frozenset(), 0.5)
        message = pb.GenerateRequest(text="hello").SerializeToString()
        stranger = context("Generate")
        assert await calls("world", guard=(guard,)).answer(message, CallContext(stranger)) == b""
        assert stranger.status is grpc.StatusCode.UNAUTHENTICATED
        known = context("Generate", authorization=f"Bearer {token}")
        content = await calls("world", guard=(guard,)).answer(message, CallContext(known))
        assert pb.GenerateResponse.FromString(content).text == "world"

    asyncio.run(scenario())


def test_an_error_keeps_its_kind_on_the_way_from_an_engine() -> None:
    for error in (
        ServiceUnavailableError("the engine is starting", hint="try again"),
        CutOffError("the engine ended while the request ran", hint="try again"),
    ):
        reply = read_reply(write_reply(failed(error)))
        again = error_of(reply)  # type: ignore[arg-type]
        assert (type(again), str(again)) == (type(error), str(error))
