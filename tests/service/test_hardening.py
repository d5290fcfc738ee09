"""No caller, and no lack of resources of the machine, takes the service from other callers."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import zmq
from grpc_health.v1 import health_pb2, health_pb2_grpc

from guided.client import Client, RawPrompt, wait_until_serving
from guided.errors import DeadlineExceededError, GuidedError, ServiceUnavailableError
from guided.spec import GenerationRequest
from guided.v1 import generation_pb2 as pb
from guided.v1.generation_pb2_grpc import GenerationServiceStub
from guided_service.admission import Admission, OverloadedError
from guided_service.descriptors import DescriptorReserve
from guided_service.engine_loop import run_engine
from guided_service.messages import (
    Cancel,
    EngineSettings,
    ModelChoice,
    Stop,
    Submit,
    read_from_engine,
    write,
)
from tests.kit.processes import facts_of, peak_mebibytes
from tests.service.echo_engine import EchoEngine
from tests.service.long_calls import long_calls
from tests.service.memory_bound import growth_bound
from tests.service.server_process import ECHO_SERVER, ServerProcess, listening, serving
from tests.service.test_supervision import eventually, raw

HEALTH = health_pb2.HealthCheckResponse


def health_of(server: ServerProcess) -> int:
    with grpc.insecure_channel(server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        status: int = stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status
        return status


# The queue in front of the engine


def test_requests_above_the_bound_wait_for_their_turn(tmp_path: Path) -> None:
    """Two hundred at once, of which one runs: none is refused."""
    settings = {"max_requests_in_flight": "1", "max_batch_size": "1"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
        ThreadPoolExecutor(200) as callers,
    ):
        texts = [f"{number}" for number in range(200)]
        answers = callers.map(
            lambda text: client.generate(RawPrompt(text), max_tokens=1).text, texts
        )
        assert [*answers] == texts


def test_who_waits_in_the_queue_keeps_its_deadline_and_leaves_no_gap(tmp_path: Path) -> None:
    settings = {"max_requests_in_flight": "1", "max_batch_size": "1"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        stream = client.stream(RawPrompt("wait"))
        next(stream)
        with pytest.raises(DeadlineExceededError):
            client.generate(RawPrompt("late"), timeout=0.3)
        stream.close()
        assert client.generate(RawPrompt("now"), max_tokens=1).text == "now"


def test_places_are_given_in_the_order_of_queue_keys() -> None:
    entered: list[str] = []

    async def call(admission: Admission, name: str, key: float, leave: asyncio.Event) -> None:
        async with admission.admitted(key):
            entered.append(name)
            await leave.wait()

    async def use() -> None:
        admission, leave = Admission(1, 10), asyncio.Event()
        calls = {
            name: asyncio.create_task(call(admission, name, key, leave))
            for name, key in (("a", 0.0), ("late", 3.0), ("left", 1.0), ("early", 2.0))
        }
        await asyncio.sleep(0)
        assert entered == ["a"]
        assert (admission.in_flight, admission.waiting) == (1, 3)
        # A caller who leaves in the turn of the loop that frees a place does not take it along.
        leave.set()
        calls["left"].cancel()
        await asyncio.gather(*calls.values(), return_exceptions=True)
        assert calls["left"].cancelled()
        assert entered == ["a", "early", "late"]
        assert (admission.in_flight, admission.waiting) == (0, 0)

    asyncio.run(use())


def test_who_has_its_turn_in_the_moment_it_leaves_gives_the_place_back() -> None:
    async def use() -> None:
        admission = Admission(1, 10)
        async with admission.admitted(0.0):
            waiting = asyncio.create_task(_enter(admission))
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (admission.in_flight, admission.waiting) == (0, 0)
        await admission.wait_until_empty()

    asyncio.run(use())


async def _enter(admission: Admission) -> None:
    async with admission.admitted(1.0):
        pass


def test_a_queue_has_bounds_and_deadlines() -> None:
    async def use() -> None:
        admission = Admission(1, 2)
        admission.check_room(3)
        with pytest.raises(OverloadedError):
            admission.check_room(4)
        async with admission.admitted(0.0):
            with pytest.raises(DeadlineExceededError, match="waited for a place"):
                async with admission.admitted(1.0, seconds=0.01):
                    pass
            waiting = asyncio.create_task(_enter(admission))
            await asyncio.sleep(0)
            admission.close()
            with pytest.raises(ServiceUnavailableError, match="the server is stopping"):
                await waiting
            with pytest.raises(ServiceUnavailableError, match="the server is stopping"):
                await _enter(admission)
        await admission.wait_until_empty()

    asyncio.run(use())


def test_a_request_waits_no_longer_than_its_own_deadline(tmp_path: Path) -> None:
    settings = {"max_requests_in_flight": "1", "max_batch_size": "1"}
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        stream = client.stream(RawPrompt("wait"))
        next(stream)
        began = time.monotonic()
        with pytest.raises(DeadlineExceededError, match="waited for a place"):
            client.generate(RawPrompt("late"), deadline=0.3)
        assert time.monotonic() - began < 5
        stream.close()


def test_a_drain_does_not_begin_what_waits(tmp_path: Path) -> None:
    settings = {
        "max_requests_in_flight": "1",
        "max_batch_size": "1",
        "lame_duck_seconds": "0",
        "drain_seconds": "20",
    }
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
        ThreadPoolExecutor(8) as callers,
    ):
        running = callers.submit(lambda: client.generate(RawPrompt("slow"), max_tokens=1500).text)
        eventually(lambda: client.stats().running == 1)
        stub = GenerationServiceStub(grpc.insecure_channel(server.address))
        asked = pb.GenerateRequest(text="waits", max_tokens=1)
        waiting = [stub.Generate.future(asked, timeout=30) for _ in range(4)]
        eventually(lambda: client.stats().queued == 4)
        server.ask_to_stop()
        for call in waiting:
            assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert running.result() == "slow"
        assert server.wait(15) == 0


# Callers who do not read


SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 2**16))
"""A caller that buffers 64 KiB of unread data, and nothing more."""


def test_a_batch_that_nobody_reads_holds_nobody_up_and_is_told(tmp_path: Path) -> None:
    """Its answers are ready, so its places are free; answers not read in time are not sent."""
    settings = {
        "stall_seconds": "0.5",
        "max_message_bytes": str(2**26),
        "max_requests_in_flight": "4",
        "max_batch_size": "4",
    }
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        grpc.insecure_channel(server.address, options=SMALL_WINDOW) as channel,
        Client(server.address) as other,
    ):
        long = pb.GenerateRequest(text="x" * 2**19, max_tokens=3)
        asked = pb.GenerateBatchRequest(requests=[long] * 4)
        batch = GenerationServiceStub(channel).GenerateBatch
        unread = batch(asked, timeout=120)
        # A busy server may cut it off before it has taken all four.
        eventually(lambda: (stats := other.stats()).ended > 0 and not stats.in_flight, 40)
        eventually(lambda: len(_answered(other)) == 4, 40)
        # A busy server takes longer to notice that the caller does not read.
        pauses = (1, 2, 4, 8, 16)
        assert _is_cut_off(unread, pauses[0]) or any(
            _is_cut_off(batch(asked, timeout=120), pause) for pause in pauses[1:]
        )


def _is_cut_off(batch: Any, pause: float) -> bool:
    """Whether a batch of four that is not read for some seconds is cut off."""
    time.sleep(pause)
    read = []
    try:
        read.extend(batch)
    except grpc.RpcError:
        assert batch.code() is grpc.StatusCode.CANCELLED
        assert len(read) < 4
        return True
    return False


def _answered(client: Client) -> list[str]:
    try:
        return [a.text for a in client.batch([raw("hello")] * 4) if not isinstance(a, GuidedError)]
    except ServiceUnavailableError:
        return []


# Abandoned requests


class CountingEngine(EchoEngine):
    submitted: list[str]

    def submit(self, request_id: str, request: GenerationRequest, **options: Any) -> None:
        self.submitted = [*getattr(self, "submitted", []), request_id]
        time.sleep(0.03)  # as a long prompt takes
        super().submit(request_id, request, **options)


def test_what_was_cancelled_meanwhile_costs_no_work(tmp_path: Path) -> None:
    """A hundred long prompts, all cancelled at once, and then one whose answer is awaited."""
    engine, all_sent = CountingEngine(), threading.Event()

    def load(_: ModelChoice) -> CountingEngine:
        assert all_sent.wait(20)
        return engine

    settings = EngineSettings(ModelChoice(), f"ipc://{tmp_path / 'engine'}", os.getppid())
    loop = threading.Thread(target=run_engine, args=(settings, load))
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.bind(settings.endpoint)
        loop.start()
        for number in range(100):
            request = GenerationRequest("wait", max_tokens=10**6)
            socket.send(write(_submit(f"{number}", request)))
        for number in range(100):
            socket.send(write(Cancel(f"{number}")))
        socket.send(write(_submit("wanted", GenerationRequest("wanted", max_tokens=1))))
        all_sent.set()
        try:
            answered = None
            while answered is None and socket.poll(20_000):
                answered = getattr(read_from_engine(socket.recv()), "result", None)
        finally:
            socket.send(write(Stop()))
            loop.join()
    assert answered is not None
    assert answered.text == "wanted"
    # Some may start before their cancellation has passed through the socket.
    assert len(engine.submitted) < 10


def _submit(request_id: str, request: GenerationRequest) -> Submit:
    return Submit.of(request_id, request, received=time.monotonic(), stream=False)


# An engine that hangs


def test_a_stopped_engine_is_noticed_and_replaced(tmp_path: Path) -> None:
    settings = {
        "silence_seconds": "1.5",
        "hang_seconds": "4",
        "restart_backoff_seconds": "0.05",
        "max_held_bytes": "16MiB",
    }
    with (
        serving(ECHO_SERVER, tmp_path / "log", settings) as server,
        Client(server.address) as client,
    ):
        process, engine = server.process.pid, server.engine_process_id()
        start = facts_of(process).mebibytes
        os.kill(engine, signal.SIGSTOP)
        # Requests that come before that is noticed do not pile up.
        with long_calls(server, 64, 3_500_000):
            eventually(lambda: health_of(server) == HEALTH.NOT_SERVING, 20)
        assert peak_mebibytes(process) < start + growth_bound(settings, 64)
        with grpc.insecure_channel(server.address) as channel:
            stub = GenerationServiceStub(channel)
            with pytest.raises(grpc.RpcError, match="the engine does not answer"):
                stub.Generate(pb.GenerateRequest(text="hello", max_tokens=1), timeout=5)
        eventually(lambda: health_of(server) == HEALTH.SERVING, 15)
        assert server.engine_process_id() != engine
        assert client.generate("hello", max_tokens=1).text == "hello"
    assert "engine has fallen silent" in server.log.read_text()


def test_an_engine_that_goes_on_is_not_killed(tmp_path: Path) -> None:
    settings = {"silence_seconds": "1.5", "hang_seconds": "20"}
    with serving(ECHO_SERVER, tmp_path / "log", settings) as server:
        engine = server.engine_process_id()
        os.kill(engine, signal.SIGSTOP)
        eventually(lambda: health_of(server) == HEALTH.NOT_SERVING, 10)
        os.kill(engine, signal.SIGCONT)
        eventually(lambda: health_of(server) == HEALTH.SERVING, 10)
        assert server.engine_process_id() == engine


# Resources that a machine may run out of


def test_a_restart_outlasts_a_folder_for_temporary_files_that_is_gone(tmp_path: Path) -> None:
    # Not below ``tmp_path``: the path of a socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="g"))
    os.environ["TMPDIR"] = str(folder)
    try:
        with listening(
            ECHO_SERVER, tmp_path / "log", {"restart_backoff_seconds": "0.05"}
        ) as server:
            wait_until_serving(server.address, 30)
            gone = folder.with_suffix(".gone")
            folder.rename(gone)
            os.kill(server.engine_process_id(), signal.SIGKILL)
            eventually(lambda: "engine not started" in server.log.read_text(), 15)
            gone.rename(folder)
            wait_until_serving(server.address, 30)
            with Client(server.address) as client:
                assert client.generate("hello", max_tokens=1).text == "hello"
    finally:
        del os.environ["TMPDIR"]


def test_an_engine_is_started_again_where_callers_hold_all_descriptors(tmp_path: Path) -> None:
    """Connections take at most half of 300 descriptors, and the restart has reserved ones."""
    command = ("prlimit", "--nofile=300:300", *ECHO_SERVER)
    with serving(command, tmp_path / "log", {"restart_backoff_seconds": "0.05"}) as server:
        descriptors = Path(f"/proc/{server.process.pid}/fd")
        before = len([*descriptors.iterdir()])
        host, _, port = server.address.rpartition(":")
        with ExitStack() as held:
            for _ in range(250):
                held.enter_context(socket.create_connection((host, int(port)), 20))
            eventually(lambda: len([*descriptors.iterdir()]) >= before + 100)
            lost = server.engine_process_id()
            os.kill(lost, signal.SIGKILL)
            eventually(lambda: server.log.read_text().count("engine ready") == 2, 20)
            assert server.engine_process_id() != lost
            # They are still held.
            wait_until_serving(server.address, 30)
            with Client(server.address) as client:
                assert client.generate("hello", max_tokens=1).text == "hello"


def test_descriptors_are_kept_and_lent() -> None:
    def numbers() -> list[int]:
        return [int(each.name) for each in Path("/proc/self/fd").iterdir()]

    def count() -> int:
        return len(numbers())

    highest = max(numbers())
    with ExitStack() as fillers:
        # The limit is on the numbers of descriptors: free lower numbers would still be used.
        while fillers.enter_context(Path(os.devnull).open()).fileno() <= highest:
            pass
        before = count()
        reserve = DescriptorReserve(5)
        assert count() == before + 5
        with reserve.lent():
            assert count() == before
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + 2, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert before <= count() < before + 5
        reserve.close()
        assert count() == before
