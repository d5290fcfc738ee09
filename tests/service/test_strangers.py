"""Abuse of the transport by one connection does not affect the connections of others."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import h2.events
import h2.exceptions
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client import Client, RawPrompt
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from tests.service.http2_peer import connected
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually

GENERATE = "/guided.v1.GenerationService/Generate"
MODEL = "/guided.v1.ModelService/GetModel"
WATCH = "/grpc.health.v1.Health/Watch"
HEALTH = health_pb2.HealthCheckResponse
LONG = pb.GenerateRequest(text="wait", max_tokens=10**6).SerializeToString()


def reset_rapidly(address: str, is_over: threading.Event) -> None:
    """Open calls and reset them at once, as fast as this process can."""
    while not is_over.is_set():
        # A server may hang up on such a peer, and the next connection continues.
        with suppress(OSError, h2.exceptions.ProtocolError), connected(address) as peer:
            while not is_over.is_set():
                for _ in range(100):
                    peer.reset(peer.call(GENERATE))
                peer.flush()
                peer.read_what_came()


def first_call(server: ServerProcess) -> grpc.StatusCode:
    """The outcome of the first call of a new connection, without retries."""
    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, options=options) as channel:
        call: Any = GenerationServiceStub(channel).Generate.future(
            pb.GenerateRequest(text="hello", max_tokens=1), timeout=60
        )
        code: grpc.StatusCode = call.code()
        return code


def test_calls_that_are_reset_at_once_cost_strangers_nothing(tmp_path: Path) -> None:
    is_over = threading.Event()
    with serving(ECHO_SERVER, tmp_path / "log") as server:
        attackers = [
            threading.Thread(target=reset_rapidly, args=(server.address, is_over)) for _ in range(2)
        ]
        for attacker in attackers:
            attacker.start()
        try:
            time.sleep(0.5)
            outcomes = [first_call(server) for _ in range(8)]
        finally:
            is_over.set()
            for attacker in attackers:
                attacker.join()
        assert outcomes == [grpc.StatusCode.OK] * 8


# Watchers of the health


def test_watchers_of_the_health_are_bounded(tmp_path: Path) -> None:
    settings = {"max_health_watchers": "12"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server, ExitStack() as opened:
        options = [("grpc.use_local_subchannel_pool", 1)]
        outcomes: list[Any] = []
        for _ in range(3):
            channel = opened.enter_context(grpc.insecure_channel(server.address, options=options))
            stub: Any = health_pb2_grpc.HealthStub(channel)
            calls = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(10)]
            outcomes += [(call, _first(call)) for call in calls]
        # Eight from each connection, until there are twelve.
        taken = [said for _, said in outcomes]
        assert taken.count(HEALTH.SERVING) == 12
        assert taken[:10].count(HEALTH.SERVING) == 8
        assert taken.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 18
        for call, said in outcomes:
            if said == HEALTH.SERVING:
                call.cancel()
        eventually(lambda: _first(stub.Watch(health_pb2.HealthCheckRequest())) == HEALTH.SERVING)


def _first(call: Any) -> object:
    try:
        return next(call).status
    except grpc.RpcError as error:
        return _code(error)


def _code(error: Any) -> object:
    return error.code()


def test_a_watcher_that_reads_nothing_holds_nobody_up(tmp_path: Path) -> None:
    """With a window of 0 the server cannot send it even the first state."""
    settings = {"restart_backoff_seconds": "1"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        connected(server.address, window=0) as deaf,
        grpc.insecure_channel(server.address) as channel,
    ):
        deaf.call(WATCH, health_pb2.HealthCheckRequest().SerializeToString())
        deaf.flush()
        time.sleep(0.5)
        stub: Any = health_pb2_grpc.HealthStub(channel)
        hearing = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30)
        assert next(hearing).status == HEALTH.SERVING
        os.kill(server.engine_process_id(), signal.SIGKILL)
        assert next(hearing).status == HEALTH.NOT_SERVING
        assert next(hearing).status == HEALTH.SERVING
        hearing.cancel()


# Limits of a connection


def test_calls_of_one_connection_are_bounded(tmp_path: Path) -> None:
    settings = {"max_streams_per_connection": "7"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        connected(server.address) as peer,
    ):
        eventually(lambda: bool(peer.read()) and peer.most_streams == 7)
        for _ in range(7):
            peer.call(GENERATE)
        with pytest.raises(h2.exceptions.TooManyStreamsError):
            peer.call(GENERATE)


def test_a_call_whose_message_does_not_come_is_ended(tmp_path: Path) -> None:
    """For every service and kind of method."""
    paths = (GENERATE, "/guided.v1.GenerationService/GenerateBatch", MODEL, WATCH)
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"stall_seconds": "0.5"}) as server,
        connected(server.address) as peer,
    ):
        streams = {peer.call(path) for path in paths}
        peer.flush()
        ended: dict[int, dict[bytes, bytes]] = {}

        def are_ended() -> bool:
            for event in peer.read():
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    ended.setdefault(event.stream_id, {}).update(event.headers)
            return {stream for stream, said in ended.items() if b"grpc-status" in said} == streams

        eventually(are_ended)
        for said in ended.values():
            assert said[b"grpc-status"] == b"4"
            assert said[b"grpc-message"].startswith(b"the message of the call did not come")


def test_an_old_connection_is_replaced_and_loses_nothing(tmp_path: Path) -> None:
    settings = {"connection_age_seconds": "0.5"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        connected(server.address) as peer,
        Client(server.address) as client,
    ):
        events: list[object] = []

        def is_sent_away() -> bool:
            try:
                events.extend(peer.read())
            except h2.exceptions.ProtocolError:
                return True  # the library accepts nothing after a GOAWAY frame, not even a ping
            return any(isinstance(each, h2.events.ConnectionTerminated) for each in events)

        eventually(is_sent_away)
        # A tenth of a second each, over several ages.
        assert [client.generate(RawPrompt(f"{n}"), max_tokens=100).text for n in range(20)] == [
            f"{n}" for n in range(20)
        ]


# The end of a server


def test_health_says_so_before_the_door_closes(tmp_path: Path) -> None:
    settings = {"lame_duck_seconds": "6"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        server.ask_to_stop()
        # New connections are still accepted, get NOT_SERVING, and are served.
        eventually(lambda: told_health(server) == HEALTH.NOT_SERVING)
        assert client.generate(RawPrompt("late"), max_tokens=1).text == "late"
        assert first_call(server) is grpc.StatusCode.OK
        eventually(lambda: told_health(server) is grpc.StatusCode.UNAVAILABLE)
        assert server.wait(60) == 0


def told_health(server: ServerProcess) -> object:
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, options=options) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            return stub.Check(health_pb2.HealthCheckRequest(), timeout=5).status
        except grpc.RpcError as error:
            return _code(error)
