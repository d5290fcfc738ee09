"""The bytes that calls hold are bounded from the message's arrival to the call's end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from weakref import ref

import grpc
import httpx2
import pytest
from h2.events import StreamEnded

from guided import Sequence, Text
from guided.client import Client, RawPrompt
from guided.errors import LimitExceededError
from guided.spec import GenerationRequest
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided_service.admission import OverloadedError
from guided_service.first_message import ARRIVING
from guided_service.held_bytes import HeldBytes, count_held, count_let_go
from guided_service.object_sizes import memory_of
from tests.kit.processes import facts_of, peak_mebibytes
from tests.service.http2_peer import connected
from tests.service.http_server import serving_http
from tests.service.long_calls import long_calls
from tests.service.memory_bound import growth_bound
from tests.service.server_process import ECHO_SERVER, serving
from tests.service.test_garbage import Cycle
from tests.service.test_hardening import SMALL_WINDOW
from tests.service.test_supervision import eventually

_CALLS = 96
_HELD_MIB = 32


@pytest.mark.parametrize("is_stopped", [True, False])
def test_many_long_messages_take_bounded_memory_and_give_it_back(
    tmp_path: Path, is_stopped: bool
) -> None:
    # Longer than a stopped engine may take here, so that it is not restarted.
    settings = {"max_held_bytes": f"{_HELD_MIB}MiB", "silence_seconds": "60"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        process, engine = server.process.pid, server.engine_process_id()
        start = facts_of(process).mebibytes
        if is_stopped:
            os.kill(engine, signal.SIGSTOP)
        with long_calls(server, _CALLS, 3_500_000) as calls:
            # Each call holds the message and its text; there is room for a few.
            most = _HELD_MIB * 2**20 // 7_000_000
            eventually(lambda: sum(call.done() for call in calls) >= _CALLS - most, 30)
            held = [call for call in calls if not call.done()]
            codes = {call.code() for call in calls if call not in held}
            assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert held
        os.kill(engine, signal.SIGCONT)
        assert peak_mebibytes(process) < start + growth_bound(settings, _CALLS)
        eventually(lambda: facts_of(process).mebibytes < start + 64, 10)
        with Client(server.address) as client:
            assert client.generate(RawPrompt("hello"), max_tokens=1).text == "hello"


def test_bodies_count_until_their_calls_end(tmp_path: Path) -> None:
    """There is room for one such call of two callers, and again once it has ended."""
    form = {"name": "x", "schema": {"description": "x" * 500_000}}
    asked = {
        "model": "echo",
        "prompt": "wait",
        "stream": True,
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    with serving_http(ECHO_SERVER, tmp_path / "log", {"max_held_bytes": "4MiB"}) as server:
        url = f"{server.url}/v1/completions"
        with httpx2.Client(timeout=30) as first, first.stream("POST", url, json=asked) as holding:
            assert holding.status_code == 200
            refused = httpx2.post(url, json=asked, timeout=30)
            assert refused.status_code == 429
            assert "retry-after" in refused.headers
        eventually(lambda: _is_taken(url, asked))


def _is_taken(url: str, asked: dict[str, object]) -> bool:
    with httpx2.stream("POST", url, json=asked, timeout=30) as response:
        return response.status_code == 200


def test_answers_that_wait_for_a_reader_count_and_are_bounded(tmp_path: Path) -> None:
    """There is room for the batch, and for some of its answers beside it.

    Answers without room are kept for a repeated request: nothing is run twice.
    """
    asked = [
        pb.GenerateRequest(text="x" * 100_000, max_tokens=1, request_id=f"r{n}") for n in range(8)
    ]
    batch = pb.GenerateBatchRequest(requests=asked)
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"max_held_bytes": "8MB"}) as server,
        grpc.insecure_channel(server.address, options=SMALL_WINDOW) as deaf,
        Client(server.address) as other,
    ):
        stub = GenerationServiceStub(deaf)
        unread = stub.GenerateBatch(batch)
        eventually(lambda: other.stats().ended == len(asked))
        eventually(lambda: "error=UNAVAILABLE" in server.log.read_text())
        # Other callers are not held up within the bytes left free.
        assert other.generate(RawPrompt("x" * 100_000), max_tokens=1).text
        refused = [told for told in unread if told.HasField("error")]
        exhausted, _ = grpc.StatusCode.RESOURCE_EXHAUSTED.value
        assert {told.error.code for told in refused} == {exhausted}
        left = [asked[told.index] for told in refused]
        lost = len(left)
        assert 0 < lost < len(asked)
        while left:
            again = stub.GenerateBatch(pb.GenerateBatchRequest(requests=left))
            missing = [left[told.index] for told in again if told.HasField("error")]
            assert len(missing) < len(left)
            left = missing
        eventually(lambda: server.log.read_text().count("repeat=True") >= lost)


def test_answers_that_were_sent_count_no_more() -> None:
    async def use() -> None:
        held = HeldBytes(900)
        with held.of_call("ann"):
            for _ in range(100):
                count_held(400)
                count_let_go(400)
            count_held(400)
            assert held.nbytes == 400
        assert held.nbytes == 0

    asyncio.run(use())


def test_fields_count_before_there_are_objects_of_them(tmp_path: Path) -> None:
    """Ten kilobytes that would become five thousand objects, without any constraint."""
    parts = pb.ConstraintList(parts=[pb.Constraint()] * 5_000)
    asked = pb.GenerateRequest(text="x", constraint=pb.Constraint(sequence=parts))
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"max_held_bytes": "1MiB"}) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        with pytest.raises(grpc.RpcError, match="the call holds") as caught:
            GenerationServiceStub(channel).Generate(asked, timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_messages_that_do_not_come_keep_nobody_out(tmp_path: Path) -> None:
    """Twice as many as are read at once, from four callers, who would wait for a minute."""
    with (
        serving(ECHO_SERVER, tmp_path / "log") as server,
        connected(server.address) as first,
        connected(server.address) as second,
        connected(server.address) as third,
        connected(server.address) as fourth,
        Client(server.address) as client,
    ):
        peers, ended = (first, second, third, fourth), list[StreamEnded]()

        def have_ended(count: int) -> bool:
            came = [event for peer in peers for event in peer.read_what_came()]
            ended.extend(event for event in came if isinstance(event, StreamEnded))
            return len(ended) >= count

        for peer in peers:
            for _ in range(ARRIVING // 2):
                peer.call("/guided.v1.GenerationService/Generate")
            peer.flush()
        # The first messages have given way to equally many others, for which no call waits yet.
        eventually(lambda: have_ended(ARRIVING))
        assert client.generate(RawPrompt("hello"), max_tokens=1, timeout=20).text == "hello"
        eventually(lambda: have_ended(ARRIVING + 1))


def test_a_caller_holds_as_much_as_it_leaves_free() -> None:
    async def use() -> None:
        held = HeldBytes(900)
        with held.of_call("ann") as first, held.of_call("ann") as second:
            first.add(400)
            with pytest.raises(OverloadedError, match="calls hold 400 bytes, 400 of them this"):
                second.add(51)
            second.add(50)
            with held.of_call("bob"):
                count_held(225)
                with held.of_call("cid") as third, pytest.raises(OverloadedError):
                    third.add(113)
            with held.of_call("bob"):
                count_held(225)
            assert held.nbytes == 450
        assert held.nbytes == 0
        with held.of_call("ann") as alone, pytest.raises(LimitExceededError, match="limit of 450"):
            alone.add(451)
        assert held.nbytes == 0

    asyncio.run(use())


def test_what_calls_freed_is_given_back_once_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back, times = threading.Event(), []

    def give_back() -> None:
        times.append(time.monotonic())
        given_back.set()

    monkeypatch.setattr("guided_service.held_bytes.give_back_memory", give_back)
    monkeypatch.setattr("guided_service.held_bytes._PAUSE_SECONDS", 0.05)

    async def use() -> None:
        held = HeldBytes(2**30)
        for _ in range(100):
            with held.of_call("ann") as hold:
                hold.add(2**20)
        assert await asyncio.to_thread(given_back.wait, 20)
        await asyncio.sleep(0.2)

    asyncio.run(use())
    assert len(times) == 1


@pytest.mark.parametrize(
    ("freed", "is_idle", "is_collected"),
    [(2**24, True, True), (2**24, False, False), (2**16, True, False)],
)
def test_an_idle_server_collects_what_calls_left(
    monkeypatch: pytest.MonkeyPatch, freed: int, is_idle: bool, is_collected: bool
) -> None:
    """Not while a call runs, and not for little."""
    given_back = threading.Event()
    monkeypatch.setattr("guided_service.held_bytes.give_back_memory", given_back.set)
    monkeypatch.setattr("guided_service.held_bytes._IDLE_SECONDS", 0.1)

    async def use() -> None:
        held = HeldBytes(2**30)
        with held.of_call("ann") as hold:
            hold.add(freed)
        with nullcontext() if is_idle else held.of_call("ben") as other:
            if other is not None:
                other.add(1)
            await asyncio.sleep(0.5)

    gc.disable()
    try:
        left = ref(Cycle())
        asyncio.run(use())
        assert (left() is None) is is_collected
    finally:
        gc.enable()
    assert given_back.wait(20 if is_collected else 0) is is_collected


def test_a_server_is_idle_once_no_call_has_come_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted from the end of the last call."""
    collected: list[float] = []
    monkeypatch.setattr("guided_service.held_bytes.give_back_memory", lambda: None)
    monkeypatch.setattr("guided_service.held_bytes._IDLE_SECONDS", 0.3)
    monkeypatch.setattr(
        "guided_service.held_bytes.gc.collect", lambda: collected.append(time.monotonic())
    )

    async def use() -> float:
        held = HeldBytes(2**30)
        for _ in range(4):
            with held.of_call("ann") as hold:
                hold.add(2**23)
            ended = time.monotonic()
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        return ended

    ended = asyncio.run(use())
    (moment,) = collected
    assert moment - ended >= 0.29


def test_objects_weigh_more_than_their_bytes() -> None:
    plain = memory_of(GenerationRequest("x" * 100_000))
    assert 100_000 < plain < 110_000
    # One character outside the basic plane makes every character take four bytes.
    assert memory_of(GenerationRequest("😀" + "x" * 100_000)) > 400_000
    many = GenerationRequest("x", constraint=Sequence([Text("ab")] * 10_000))
    assert memory_of(many) > 500_000
