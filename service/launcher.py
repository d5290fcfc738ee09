"""How a server starts engine processes: each anew, or as forks of a standby (``forks``)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from guided_service.messages import (
    Ended,
    EngineSettings,
    Forked,
    StandbySettings,
    read_news,
    write_line,
)

__all__ = ["EngineProcess", "ForkingLauncher", "Launcher", "SpawningLauncher"]

_FORK_SECONDS = 10.0
"""How long a standby may take to fork once it has loaded, until it is killed."""
_CLOSE_SECONDS = 2.0


class EngineProcess(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...
    def kill(self) -> None: ...


class Launcher(Protocol):
    """Starts engine processes, one after another."""

    async def launch(self, settings: EngineSettings) -> EngineProcess:
        """Start one, which loads in its own time; raises OSError."""

    async def forget(self) -> None:
        """Keep nothing for the next one, as after a start that failed, or at the end."""


class SpawningLauncher:
    """Starts each from nothing."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    async def launch(self, settings: EngineSettings) -> EngineProcess:
        """Start one."""
        return await asyncio.create_subprocess_exec(
            *self._command, write_line(settings).decode(), stdin=asyncio.subprocess.DEVNULL
        )

    async def forget(self) -> None:
        """Nothing is kept."""


class ForkingLauncher:
    """Starts a standby and has it fork; another one where that has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._standby: _Standby | None = None

    async def launch(self, settings: EngineSettings) -> EngineProcess:
        """Have one forked; the first waits until the standby has loaded."""
        if self._standby is None or self._standby.has_ended:
            await self.forget()
            self._standby = await _Standby.start(self._command, settings)
        return self._standby.fork(settings)

    async def forget(self) -> None:
        """End the standby."""
        standby, self._standby = self._standby, None
        if standby is not None:
            await standby.close()


class _ForkedEngine:
    """An engine that a standby forks, or will."""

    def __init__(self, standby: int) -> None:
        self.pid = standby
        """Until it is forked, that of the standby."""
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def end(self, status: int) -> None:
        """Note how it ended."""
        self.returncode = status
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class _Standby:
    """A standby process, and the engine that it runs."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._engine: _ForkedEngine | None = None
        self._has_loaded = False
        self._giving_up: asyncio.TimerHandle | None = None
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, command: Sequence[str], engine: EngineSettings) -> _Standby:
        """Start the process, which loads in its own time what the engine is to run."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                settings = StandbySettings(engine.choice, os.getpid(), theirs.fileno(), engine.logs)
                process = await asyncio.create_subprocess_exec(
                    *command,
                    write_line(settings).decode(),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
        except BaseException:
            ours.close()
            raise
        return cls(process, *await asyncio.open_connection(sock=ours))

    @property
    def has_ended(self) -> bool:
        """Whether it cannot fork any more."""
        return self._listening.done()

    def fork(self, settings: EngineSettings) -> EngineProcess:
        """Ask for an engine."""
        self._engine = _ForkedEngine(self._process.pid)
        self._writer.write(write_line(settings))
        if self._has_loaded:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(_FORK_SECONDS, self._kill)
        return self._engine

    async def close(self) -> None:
        """End it, and the engine with it."""
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        """Note what becomes of engines, until the standby ends."""
        with suppress(ConnectionError):
            while line := await self._reader.readline():
                assert self._engine is not None, "news of no engine"
                match read_news(line):
                    case Forked(process):
                        self._has_loaded = True
                        self._engine.pid = process
                        if self._giving_up is not None:
                            self._giving_up.cancel()
                    case Ended(status):
                        self._engine.end(status)
        status = await self._process.wait()
        if self._engine is not None and self._engine.returncode is None:
            self._engine.end(status)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
