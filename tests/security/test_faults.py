"""Faults of a machine: the server stays up or comes back, and callers get errors."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import re
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from guided.client import Client, RawPrompt, wait_until_serving
from guided.errors import GuidedError, ServiceUnavailableError
from guided.spec import Regex
from guided_service import launcher
from guided_service.engine_connection import EngineConnection
from guided_service.launcher import ForkingLauncher
from guided_service.log_stream import LossyStream
from guided_service.messages import LogChoice, ModelChoice
from tests.kit.soak import kill_engine
from tests.service.echo_server import ENGINE
from tests.service.server_process import ECHO_SERVER, ServerProcess, serving
from tests.service.test_supervision import eventually, has_ended

QUICK = {"restart_backoff_seconds": "0.05", "silence_seconds": "1.5", "hang_seconds": "3"}


def told_of_call(client: Client, prompt: str) -> GuidedError:
    with pytest.raises(GuidedError) as caught:
        client.generate(RawPrompt(prompt), max_tokens=10**6, timeout=60)
    return caught.value


def serves(server: ServerProcess) -> None:
    wait_until_serving(server.address, 60)
    with Client(server.address) as client:
        assert client.generate(RawPrompt("on"), max_tokens=1).text == "on"


def restarts(server: ServerProcess) -> int:
    return server.log.read_text().count("engine ready") - 1


# Processes that stop or end


def test_callers_of_an_engine_that_is_stopped_are_told(tmp_path: Path) -> None:
    """SIGSTOP, as from a debugger or in a frozen container."""
    with (
        serving(ECHO_SERVER, tmp_path / "log", QUICK) as server,
        Client(server.address) as client,
    ):
        engine = server.engine_process_id()
        stop = threading.Timer(0.5, os.kill, (engine, signal.SIGSTOP))
        stop.start()
        told = told_of_call(client, "wait")
        assert isinstance(told, ServiceUnavailableError)
        assert "killed by signal 9" in str(told)
        serves(server)
        assert server.engine_process_id() != engine


def test_an_engine_is_forked_again_in_a_fraction_of_a_start(
    tiny: Client, tiny_server: ServerProcess
) -> None:
    """The first start in the log gives the seconds of a start; other programs may slow the rest."""
    start = float(re.findall(r"engine ready .*seconds=([\d.]+)", tiny_server.log.read_text())[0])
    standby = tiny_server.standby_process_id()
    assert min(kill_engine(tiny_server) for _ in range(3)) < start / 2
    assert tiny_server.standby_process_id() == standby
    assert tiny.generate("x", grammar=Regex("yes"), max_tokens=8).text == "yes"


def test_without_a_standby_an_engine_is_started_from_nothing(tmp_path: Path) -> None:
    with serving(ECHO_SERVER, tmp_path / "log", QUICK | {"standby": "false"}) as server:
        engine = server.engine_process_id()
        assert engine == server.standby_process_id()
        os.kill(engine, signal.SIGKILL)
        eventually(lambda: server.log.read_text().count("engine ready") == 2, 30)
        serves(server)


def test_a_standby_that_ends_takes_its_engine_along_and_both_come_back(tmp_path: Path) -> None:
    with (
        serving(ECHO_SERVER, tmp_path / "log", QUICK) as server,
        Client(server.address) as client,
    ):
        standby, engine = server.standby_process_id(), server.engine_process_id()
        assert standby != engine
        kill = threading.Timer(0.5, os.kill, (standby, signal.SIGKILL))
        kill.start()
        assert isinstance(told_of_call(client, "wait"), ServiceUnavailableError)
        eventually(lambda: has_ended(engine))
        serves(server)
        assert server.standby_process_id() != standby


def test_a_standby_that_does_not_fork_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_FORK_SECONDS", 0.5)

    async def use() -> None:
        launching = ForkingLauncher(ENGINE)
        first = await EngineConnection.start(launching, ModelChoice(), LogChoice())
        await first.ready()
        engine = first.process_id
        standby = _parent(engine)
        assert os.getpid() not in (engine, standby)
        os.kill(standby, signal.SIGSTOP)
        os.kill(engine, signal.SIGKILL)
        second = await EngineConnection.start(launching, ModelChoice(), LogChoice())
        with pytest.raises(ServiceUnavailableError, match="before its model was loaded"):
            await second.ready()
        second.close()
        third = await EngineConnection.start(launching, ModelChoice(), LogChoice())
        await third.ready()
        await third.stop(5)
        await launching.forget()
        first.close()

    asyncio.run(use())


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[1])


# Descriptors, disk, memory


@contextmanager
def limited(process: int, what: int, soft: int) -> Iterator[None]:
    """A process under a limit of the system."""
    before = resource.prlimit(process, what)
    resource.prlimit(process, what, (soft, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it may have ended
            resource.prlimit(process, what, before)


def test_a_server_without_descriptors_outlasts_its_engine(tmp_path: Path) -> None:
    """EMFILE while an engine is started again."""
    with serving(ECHO_SERVER, tmp_path / "log", QUICK) as server, Client(server.address) as client:
        once = client.with_options(retries=0)
        # Connected before: a connection that is not accepted is given up after twenty seconds.
        assert once.generate(RawPrompt("hello"), max_tokens=1).text == "hello"
        with limited(server.process.pid, resource.RLIMIT_NOFILE, 3):
            os.kill(server.engine_process_id(), signal.SIGKILL)
            eventually(lambda: "engine not started" in server.log.read_text(), 15)
            assert isinstance(told_of_call(once, "hello"), ServiceUnavailableError)
        serves(server)


def test_a_server_whose_log_is_on_a_full_disk_serves_on(tmp_path: Path) -> None:
    """ENOSPC for every line of the log, of the server and of its engines."""
    command = ("sh", "-c", 'exec "$0" "$@" 2>/dev/full', *ECHO_SERVER)
    with serving(command, tmp_path / "log", QUICK) as server, Client(server.address) as client:
        engine = server.engine_process_id()
        assert "bug" not in client.generate(RawPrompt("hello"), max_tokens=1).text
        assert told_of_call(client, "bug in submit")
        os.kill(engine, signal.SIGKILL)
        eventually(lambda: server.engine_process_id() != engine)
        serves(server)


def test_a_server_that_can_write_no_file_serves_on(tmp_path: Path) -> None:
    """EFBIG, as ENOSPC, for every byte that goes to any file."""
    with serving(ECHO_SERVER, tmp_path / "log", QUICK) as server:
        engine = server.engine_process_id()
        for process in (server.process.pid, server.standby_process_id(), engine):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        os.kill(engine, signal.SIGKILL)
        eventually(lambda: has_ended(engine))
        serves(server)
        assert server.engine_process_id() != engine


def test_lines_that_cannot_be_written_are_lost() -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    stream = LossyStream(Full())
    stream.write("a line")
    stream.flush()
    kept = io.StringIO()
    LossyStream(kept).write("a line")
    assert kept.getvalue() == "a line"


def test_an_engine_without_memory_tells_its_callers_and_comes_back(
    tiny: Client, tiny_server: ServerProcess
) -> None:
    """RLIMIT_AS slightly above its current size: only a constraint that needs more fails."""
    engine = tiny_server.engine_process_id()
    pages = int(Path(f"/proc/{engine}/statm").read_text().split()[0])
    told = []
    with limited(engine, resource.RLIMIT_AS, pages * resource.getpagesize() + 2**23):
        for length in (2_000, 10_000, 20_000):
            try:
                tiny.generate("x", grammar=Regex(f"^(.{{1,{length}}}|é)$"), max_tokens=8)
            except GuidedError as error:
                told.append(error)
            if has_ended(engine):
                break
    assert told
    wait_until_serving(tiny_server.address, 60)
    assert tiny.generate("x", grammar=Regex("yes"), max_tokens=8).text == "yes"
