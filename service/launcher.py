"""Starts a server's engine processes: each from scratch, or as forks of a standby (``forks``)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

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
"""How long a standby that has loaded may take to fork before it is killed."""
_CLOSE_SECONDS = 2.0


class SpawningLauncher:
    """Starts each engine from scratch."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    async def launch(self, settings: EngineSettings) -> EngineProcess:
        """Start an engine, without waiting for it to load; raises OSError."""
        return await asyncio.create_subprocess_exec(
            *self._command, write_line(settings).decode(), stdin=asyncio.subprocess.DEVNULL
        )

    async def forget(self) -> None:
        """Do nothing: nothing is kept."""


class ForkingLauncher:
    """Starts a standby and has it fork engines; starts another one when that has ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._standby: _Standby | None = None

    async def launch(self, settings: EngineSettings) -> EngineProcess:
        """Have an engine forked; the first waits until the standby has loaded. Raises OSError."""
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
    """An engine that a standby has forked, or will fork."""

    def __init__(self, standby: int) -> None:
        self.pid = standby
        """The process id; until the fork, the standby's."""
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    def end(self, status: int) -> None:
        """Note its exit status."""
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


EngineProcess: TypeAlias = asyncio.subprocess.Process | _ForkedEngine
Launcher: TypeAlias = SpawningLauncher | ForkingLauncher


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
        """Start the process, which loads what the engine runs; does not wait for it."""
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
        """Whether it can no longer fork."""
        return self._listening.done()

    def fork(self, settings: EngineSettings) -> EngineProcess:
        """Request an engine."""
        self._engine = _ForkedEngine(self._process.pid)
        self._writer.write(write_line(settings))
        if self._has_loaded:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(_FORK_SECONDS, self._kill)
        return self._engine

    async def close(self) -> None:
        """End the standby, and its engine with it."""
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        """Note the forks and ends of engines until the standby ends."""
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
