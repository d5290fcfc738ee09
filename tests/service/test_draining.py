"""A server that is told to stop finishes what runs, within its time."""

from __future__ import annotations

import signal
import threading
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client import Answer, Client, RawPrompt
from guided.errors import GuidedError, ServiceUnavailableError
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually, has_ended, raw

CUT = "the server was stopping and cut the request off after 0.5 s; try again once it is back"


def test_a_server_told_to_stop_finishes_what_runs(echo: Client, echo_server: ServerProcess) -> None:
    engine = echo_server.engine_process_id()
    completed = echo.as_completed([raw("quick"), raw("slow", 2500)])
    next(completed)
    eventually(lambda: echo.stats().running == 1)
    echo_server.ask_to_stop()
    # Until then, new requests are still accepted.
    eventually(lambda: "draining" in echo_server.log.read_text())
    with Client(echo_server.address, retries=0) as late, pytest.raises(ServiceUnavailableError):
        late.generate("too late")
    slow = next(completed)
    assert isinstance(slow.outcome, Answer)
    assert slow.outcome.text == "slow"
    assert echo_server.wait(5) == 0
    assert has_ended(engine)


def test_what_does_not_finish_within_the_grace_period_is_cut(tmp_path: Path) -> None:
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"drain_seconds": "0.5"}) as server,
        Client(server.address) as client,
    ):
        completed = client.as_completed([raw("quick"), raw("wait")])
        next(completed)
        eventually(lambda: client.stats().running == 1)
        server.ask_to_stop()
        cut = next(completed).outcome
        assert isinstance(cut, ServiceUnavailableError)
        assert str(cut) == CUT
        assert server.wait(5) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_server_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with (
        serving(ECHO_SERVER, tmp_path / "log", {"drain_seconds": "60"}) as server,
        Client(server.address, retries=0) as client,
    ):
        engine = server.engine_process_id()
        completed = client.as_completed([raw("quick"), raw("wait")])
        next(completed)
        server.process.send_signal(number)
        eventually(lambda: "draining" in server.log.read_text())
        server.process.send_signal(number)
        assert server.wait(5) == -number
        assert isinstance(next(completed).outcome, ServiceUnavailableError)
    eventually(partial(has_ended, engine))


def test_a_call_that_a_drain_cuts_off_learns_why(tmp_path: Path) -> None:
    errors: list[GuidedError] = []

    def wait_for_ever(client: Client) -> None:
        try:
            client.generate(RawPrompt("wait"), max_tokens=1)
        except GuidedError as error:
            errors.append(error)

    with (
        serving(ECHO_SERVER, tmp_path / "log", {"drain_seconds": "0.5"}) as server,
        Client(server.address) as client,
    ):
        waiting = threading.Thread(target=wait_for_ever, args=(client,))
        waiting.start()
        eventually(lambda: client.stats().running == 1)
        server.ask_to_stop()
        waiting.join(10)
        assert server.wait(5) == 0
    assert [(type(error), str(error)) for error in errors] == [(ServiceUnavailableError, CUT)]


def test_a_caller_who_watches_health_does_not_hold_up_a_drain(echo_server: ServerProcess) -> None:
    with grpc.insecure_channel(echo_server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(  # type: ignore[attr-defined]
            health_pb2.HealthCheckRequest()
        )
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        echo_server.ask_to_stop()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert echo_server.wait(5) == 0
