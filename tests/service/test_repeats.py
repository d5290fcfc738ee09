"""A request that comes again under its id has one answer, kept for a bounded time and size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from guided.client import AsyncClient, Client, RawPrompt, Request
from guided.errors import (
    DeadlineExceededError,
    GuidedError,
    IncompleteAnswerError,
    RequestError,
    ServiceUnavailableError,
)
from guided.spec import FinishReason, Usage
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided_service.admission import OverloadedError
from guided_service.config import ServerConfig
from guided_service.door import Door
from guided_service.repeats import Digest, Key, Repeats, key_of
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_doors import ANN, BOB, tokens_file
from tests.service.test_supervision import cancelled_requests, eventually

KEY, ONE, OTHER = Key(b"key"), Digest(b"one"), Digest(b"other")


class Maker:
    """Makes distinguishable answers, each when it is released."""

    def __init__(self) -> None:
        self.made = self.given_up = 0
        self.let = asyncio.Event()

    async def make(self) -> pb.GenerateResponse:
        self.made += 1
        number = self.made
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return pb.GenerateResponse(text=f"{number}")


def using(talk: Callable[[Maker], Awaitable[None]]) -> None:
    async def use() -> None:
        await talk(Maker())

    asyncio.run(use())


def test_who_asks_again_joins_the_answer_under_way_and_the_finished_one() -> None:
    async def talk(maker: Maker) -> None:
        repeats = Repeats()
        first = asyncio.create_task(repeats.answer(KEY, ONE, maker.make))
        again = asyncio.create_task(repeats.answer(KEY, ONE, maker.make))
        another = asyncio.create_task(repeats.answer(Key(b"else"), ONE, maker.make))
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="another request has this request_id"):
            await repeats.answer(KEY, OTHER, maker.make)
        first.cancel()  # its connection broke, and the other call came
        maker.let.set()
        assert [(await again).text, (await another).text] == ["1", "2"]
        assert (await repeats.answer(KEY, ONE, maker.make)).text == "1"
        with pytest.raises(RequestError, match="another request has this request_id"):
            await repeats.answer(KEY, OTHER, maker.make)
        assert (maker.made, maker.given_up) == (2, 0)

    using(talk)


def test_an_answer_that_nobody_waits_for_is_given_up_and_joined_by_none() -> None:
    async def talk(maker: Maker) -> None:
        repeats = Repeats()
        callers = [asyncio.create_task(repeats.answer(KEY, ONE, maker.make)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for caller in callers:
            caller.cancel()
        # It comes at the moment when they leave.
        late = asyncio.create_task(repeats.answer(KEY, ONE, maker.make))
        await asyncio.gather(*callers, return_exceptions=True)
        await asyncio.sleep(0)
        maker.let.set()
        assert (await late).text == "2"
        assert maker.given_up == 1

    using(talk)


def test_not_many_wait_for_one_answer() -> None:
    async def talk(maker: Maker) -> None:
        repeats = Repeats()
        callers = [asyncio.create_task(repeats.answer(KEY, ONE, maker.make)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="3 calls wait for the answer to this request"):
            await repeats.answer(KEY, ONE, maker.make)
        maker.let.set()
        assert [one.text for one in await asyncio.gather(*callers)] == ["1", "1", "1"]

    using(talk)


CUT_SHORT = [
    pb.GenerateResponse(finish_reason=pb.FINISH_REASON_DEADLINE),
    pb.GenerateResponse(finish_reason=pb.FINISH_REASON_DEADLINE_CLOSED),
    pb.GenerateResponse(
        candidates=[pb.Candidate(), pb.Candidate(finish_reason=pb.FINISH_REASON_DEADLINE_CLOSED)]
    ),
    DeadlineExceededError("the deadline came"),
    IncompleteAnswerError(
        "cut short", text="", finish_reason=FinishReason.DEADLINE_CLOSED, usage=Usage()
    ),
]


@pytest.mark.parametrize("outcome", CUT_SHORT)
def test_who_joins_has_time_of_its_own(outcome: pb.GenerateResponse | GuidedError) -> None:
    async def talk(maker: Maker) -> None:
        async def late() -> pb.GenerateResponse:
            await maker.let.wait()
            if isinstance(outcome, GuidedError):
                raise outcome
            return outcome

        repeats = Repeats()
        first = asyncio.create_task(repeats.answer(KEY, ONE, late))
        await asyncio.sleep(0)
        others = [asyncio.create_task(repeats.answer(KEY, ONE, maker.make)) for _ in range(2)]
        await asyncio.sleep(0)
        assert maker.made == 0
        maker.let.set()
        assert [(await other).text for other in others] == ["1", "1"]
        assert (await repeats.answer(KEY, ONE, maker.make)).text == "1"
        if isinstance(outcome, GuidedError):
            with pytest.raises(type(outcome)):
                await first
        else:
            assert await first == outcome

    using(talk)


@pytest.mark.parametrize("answer", CUT_SHORT[:3])
def test_an_answer_that_a_deadline_cut_short_is_not_given_again(answer: Any) -> None:
    async def talk(maker: Maker) -> None:
        async def late() -> pb.GenerateResponse:
            return cast("pb.GenerateResponse", answer)

        repeats = Repeats()
        maker.let.set()
        await repeats.answer(KEY, ONE, late)
        assert (await repeats.answer(KEY, ONE, maker.make)).text == "1"

    using(talk)


def test_an_error_is_told_to_all_who_wait_and_not_kept() -> None:
    async def talk(maker: Maker) -> None:
        async def fail() -> pb.GenerateResponse:
            await maker.let.wait()
            raise RequestError("odd")

        repeats = Repeats()
        callers = [asyncio.create_task(repeats.answer(KEY, ONE, fail)) for _ in range(2)]
        await asyncio.sleep(0)
        maker.let.set()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["odd", "odd"]
        assert (await repeats.answer(KEY, ONE, maker.make)).text == "1"

    using(talk)


def test_finished_answers_are_kept_in_bounded_memory_for_a_bounded_time() -> None:
    async def talk(maker: Maker) -> None:
        now = 0.0
        repeats = Repeats(kept_bytes=4000, kept_seconds=10, clock=lambda: now)
        maker.let.set()
        for number in range(5):  # each counts as a kilobyte
            await repeats.answer(Key(b"%d" % number), ONE, maker.make)
        assert maker.made == 5
        await repeats.answer(Key(b"4"), ONE, maker.make)
        assert maker.made == 5
        await repeats.answer(Key(b"0"), ONE, maker.make)  # was dropped for the last ones
        assert maker.made == 6
        now = 11.0
        await repeats.answer(Key(b"4"), ONE, maker.make)
        assert maker.made == 7

        async def long() -> pb.GenerateResponse:
            maker.made += 1
            return pb.GenerateResponse(text="x" * 4000)

        for _ in range(2):  # larger than all that is kept
            await repeats.answer(Key(b"long"), ONE, long)
        assert maker.made == 9

    using(talk)


def test_old_answers_are_forgotten_even_if_no_other_comes() -> None:
    async def talk(maker: Maker) -> None:
        now = 0.0
        repeats = Repeats(kept_seconds=0.05, clock=lambda: now)
        maker.let.set()
        for made in (1, 2):  # the second time to see that it goes on
            await repeats.answer(KEY, ONE, maker.make)
            now = 1.0
            await asyncio.sleep(0.2)
            now = 0.0  # what was merely too old would be given again
            assert maker.made == made

    using(talk)


# Over the wire


def answered(client: Client) -> int:
    return client.stats().answered[FinishReason.STOP]


def test_the_same_request_under_one_id_is_run_once(
    echo: Client, echo_server: ServerProcess
) -> None:
    asked = pb.GenerateRequest(text="slow", max_tokens=2500, request_id="job-1")
    changed = pb.GenerateRequest(text="slow", max_tokens=2501, request_id="job-1")
    # Two connections: as after the first has broken, which the server has not noticed yet.
    own = [("grpc.use_local_subchannel_pool", 1)]
    with (
        grpc.insecure_channel(echo_server.address, own) as one,
        grpc.insecure_channel(echo_server.address, own) as other,
    ):
        first = GenerationServiceStub(one).Generate.future(asked, timeout=30)
        eventually(lambda: echo.stats().running == 1)
        again = GenerationServiceStub(other).Generate.future(asked, timeout=30)
        # If the first were given up before the other has joined it, the request would run again.
        # Calls of one connection are handled in order: after these it has joined.
        for _ in range(3):
            with pytest.raises(grpc.RpcError, match="another request has this request_id"):
                GenerationServiceStub(other).Generate(changed, timeout=30)
        first.cancel()
        assert again.result().text == "slow"
        assert GenerationServiceStub(other).Generate(asked, timeout=30).text == "slow"
        eventually(lambda: answered(echo) == 1)
        batch = pb.GenerateBatchRequest(requests=[asked, asked])
        outcomes = list(GenerationServiceStub(other).GenerateBatch(batch, timeout=30))
        assert [one.response.text for one in outcomes] == ["slow", "slow"]
        with pytest.raises(grpc.RpcError, match="another request has this request_id"):
            GenerationServiceStub(other).Generate(changed, timeout=30)
    eventually(lambda: cancelled_requests(echo) == 0)
    # The call for the count adds one.
    eventually(lambda: answered(echo) == 2)


def test_requests_without_an_id_or_of_another_caller_are_their_own(
    echo: Client, echo_server: ServerProcess
) -> None:
    with grpc.insecure_channel(echo_server.address) as channel:
        stub = GenerationServiceStub(channel)
        asked = pb.GenerateRequest(text="x", max_tokens=1)
        for _ in range(2):
            stub.Generate(asked, timeout=30)
        asked.request_id = "1"
        for caller in ("Bearer one", "Bearer two", "Bearer two"):
            stub.Generate(asked, timeout=30, metadata=(("authorization", caller),))
    eventually(lambda: answered(echo) == 4)


def test_an_answer_is_charged_once_and_shared_with_nobody_else(tmp_path: Path) -> None:
    """With two tokens on one machine, other connections of one of them, and other salts."""
    settings = {"tokens": str(tokens_file(tmp_path, bob="requests_per_minute = 3"))}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:

        def ask(token: str, **options: Any) -> str:
            with Client(server.address, token=token, retries=0) as client:
                return client.generate(RawPrompt("x"), max_tokens=1, **options).request_id

        for token in (ANN, BOB, BOB, BOB, BOB):
            assert ask(token, request_id="one") == "one"
        for salt in ("a", "b", "b"):
            ask(BOB, request_id="one", cache_salt=salt)
        with Client(server.address, token=ANN) as client:
            eventually(lambda: answered(client) == 4)
        with pytest.raises(ServiceUnavailableError, match="has used its requests_per_minute of 3"):
            ask(BOB, request_id="two")
        assert ask(BOB, request_id="one") == "one"


def test_a_caller_is_known_on_any_of_its_connections() -> None:
    def key(peer: str, shown: str | None = None, salt: str = "", name: str = "one") -> Key:
        message = pb.GenerateRequest(text="x", request_id=name, cache_salt=salt)
        call: Any = _Call(peer, shown)
        return key_of(message, Door(ServerConfig()).caller(call))

    first = key("ipv4:10.0.0.1:5555")
    assert first == key("ipv4:10.0.0.1:6666")
    others = [
        key("ipv4:10.0.0.2:5555"),
        key("ipv4:10.0.0.1:5555", shown="Bearer a"),
        key("ipv4:10.0.0.1:5555", salt="s"),
        key("ipv4:10.0.0.1:5555", name="two"),
        key("ipv6:[::1]:5555"),
        key("unix:"),
    ]
    assert len({first, *others}) == 7


class _Call:
    """The information on its caller in a call without a certificate."""

    def __init__(self, peer: str, shown: str | None) -> None:
        self._peer = peer
        self._shown = shown

    def peer(self) -> str:
        return self._peer

    def peer_identities(self) -> None:
        return None

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return [] if self._shown is None else [("authorization", self._shown)]


def test_the_client_names_its_requests_and_tells_the_names(shared_echo: Client) -> None:
    made = {shared_echo.generate("x", max_tokens=1).request_id for _ in range(3)}
    assert len(made) == 3
    assert all(len(name) == 32 for name in made)
    assert shared_echo.generate("x", max_tokens=1, request_id="mine").request_id == "mine"
    with pytest.raises(RequestError, match="another request has this") as differing:
        shared_echo.generate("y", max_tokens=1, request_id="mine")
    assert (differing.value.request_id, differing.value.field) == ("mine", "request_id")
    with pytest.raises(RequestError) as odd:
        shared_echo.generate("x", max_tokens=1, request_id="a\nb")
    assert str(odd.value) == (
        "request_id 'a\\nb' is not 1 to 128 visible ASCII characters; use a UUID"
    )
    with shared_echo.stream(RawPrompt("hello"), max_tokens=1, request_id="streamed") as stream:
        list(stream)
    assert stream.answer.request_id == "streamed"


def test_errors_carry_the_id_for_every_client(shared_echo_server: ServerProcess) -> None:
    with grpc.insecure_channel(shared_echo_server.address) as channel:
        stub = GenerationServiceStub(channel)
        asked = pb.GenerateRequest(text="refuse", request_id="r-1")
        with pytest.raises(grpc.RpcError) as caught:
            stub.Generate(asked, timeout=30)
        assert isinstance(caught.value, grpc.Call)
        trailers = dict(caught.value.trailing_metadata())
        told = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
        (outcome,) = stub.GenerateBatch(pb.GenerateBatchRequest(requests=[asked]), timeout=30)
    for status in (told, outcome.error):
        assert _request_ids(status) == ["r-1"]


def _request_ids(status: status_pb2.Status) -> list[str]:
    found = []
    for detail in status.details:
        info = error_details_pb2.RequestInfo()
        if detail.Unpack(info):
            found.append(info.request_id)
    return found


def test_an_id_that_could_forge_a_line_of_the_log_is_in_none(
    shared_echo_server: ServerProcess,
) -> None:
    with grpc.insecure_channel(shared_echo_server.address) as channel:
        stub = GenerationServiceStub(channel)
        for name in ("a\nb", "x" * 129, "語"):
            with pytest.raises(grpc.RpcError, match="visible ASCII characters") as caught:
                stub.Generate(pb.GenerateRequest(text="refuse", request_id=name), timeout=30)
            assert isinstance(caught.value, grpc.Call)
            trailers = dict(caught.value.trailing_metadata())
            (made,) = _request_ids(
                status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
            )
            assert len(made) == 32
            assert trailers["guided-request-id"] == made


def test_the_asyncio_client_names_its_requests_alike(tmp_path: Path) -> None:
    async def talk(address: str) -> None:
        async with AsyncClient(address) as client:
            answer = await client.generate("x", max_tokens=1, request_id="mine")
            assert answer.request_id == "mine"
            with pytest.raises(RequestError) as differing:
                await client.generate("y", max_tokens=1, request_id="mine")
            assert differing.value.request_id == "mine"
            asked = [Request("x", max_tokens=1, request_id="mine"), Request(RawPrompt("refuse"))]
            same, refused = await client.batch(asked)
            assert not isinstance(same, GuidedError)
            assert same.request_id == "mine"
            assert isinstance(refused, GuidedError)
            assert refused.request_id

    with serving(ECHO_SERVER, tmp_path / "log") as server:
        asyncio.run(talk(server.address))
