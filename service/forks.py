"""Engines as forks of one process, the *standby*, that has loaded what they share.

Loading torch, the tokenizer, machine code and weights takes seconds, forking takes milliseconds.
The memory of a fork is that of the standby until either writes to it, so weights are there once::

    server ──▶ standby   imports, tokenizer, masks, kernels, weights; then sleeps
                  │ fork
                  ▼
               engine    threads, cache of keys and values, requests

    server                                   standby
      │  ── StandbySettings, command line ──▶  │  loads
      │  ── EngineSettings ─────────────────▶  │  forks
      │  ◀── Forked ─────────────────────────  │  waits for the engine's end
      │  ◀── Ended ──────────────────────────  │

The standby has no threads, takes no requests, and runs one engine at a time. What goes wrong in an
engine goes with it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import msgspec

from guided.errors import GuidedError
from guided_service.engine_loop import RunningEngine, run_engine
from guided_service.messages import (
    Ended,
    EngineSettings,
    Forked,
    ModelChoice,
    StandbySettings,
    read_order,
    write_line,
)
from guided_service.process_life import die_with_parent

__all__ = ["SharingLoader", "run_standby"]

SharingLoader = Callable[[ModelChoice, Callable[[], None] | None], RunningEngine]
"""How an engine is made. What it is given besides the choice is to be called once, when all that
engines can share is in memory and there are no threads: it returns in each engine."""


def run_standby(settings: StandbySettings, load: SharingLoader) -> int:
    """Load what engines share, and fork them until the server is gone; the exit status."""
    forks = _Forks(settings.control)
    outcome: RunningEngine | GuidedError
    try:
        outcome = load(settings.choice, forks.wait)
    except GuidedError as error:
        outcome = error
    except Exception:
        if not forks.is_fork:
            raise
        traceback.print_exc()
        _leave(1)
    if not forks.is_fork:
        # There is nothing to fork: this process tells the first who asks why.
        forks.take_order()
    status = _run(forks.settings, outcome)
    if forks.is_fork:
        _leave(status)
    return status


def _run(settings: EngineSettings, outcome: RunningEngine | GuidedError) -> int:
    def loaded(_: ModelChoice) -> RunningEngine:
        if isinstance(outcome, GuidedError):
            raise outcome
        return outcome

    try:
        return run_engine(settings, loaded)
    except Exception:
        traceback.print_exc()
        return 1


def _leave(status: int) -> NoReturn:
    """End a fork without what the standby has registered for its own end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class _Forks:
    """The forks of this process, as its server asks for them."""

    def __init__(self, control: int) -> None:
        self._socket = socket.socket(fileno=control)
        self._orders = self._socket.makefile("rb")
        self._settings: EngineSettings | None = None
        self.is_fork = False
        """Whether this process is one of them."""

    @property
    def settings(self) -> EngineSettings:
        """Those of the engine that this process is."""
        assert self._settings is not None, "no engine was asked for"
        return self._settings

    def take_order(self) -> None:
        """Wait until an engine is asked for; ends the process where the server is gone."""
        line = self._orders.readline()
        if not line:
            sys.exit(0)
        self._settings = read_order(line)

    def wait(self) -> None:
        """Fork for each engine that is asked for, and return in it."""
        while not self.is_fork:
            self.take_order()
            self._fork()

    def _fork(self) -> None:
        # Its end that is written to is open as long as the engine lives, and nowhere else.
        living, held = os.pipe()
        standby = os.getpid()
        process = os.fork()
        if process == 0:
            self.is_fork = True
            os.close(living)
            self._orders.close()
            self._socket.close()
            die_with_parent()
            self._settings = msgspec.structs.replace(self.settings, parent=standby)
            return
        os.close(held)
        self._tell(Forked(process))
        # The server says nothing while an engine lives: what can be read is that it is gone.
        ready, _, _ = select.select([self._socket.fileno(), living], [], [])
        os.close(living)
        if living not in ready:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        self._tell(Ended(os.waitstatus_to_exitcode(status)))

    def _tell(self, message: Forked | Ended) -> None:
        with suppress(OSError):  # a server that is gone is noticed by who waits for its order
            self._socket.sendall(write_line(message))
