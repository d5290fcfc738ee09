"""Forks engines from one process, the *standby*, which has loaded what they share.

Loading torch, the tokenizer, machine code and weights takes seconds, forking milliseconds. A fork
shares the standby's memory until either writes to it, so the weights are in memory once::

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
engine ends with that engine.
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
"""Makes an engine. Its second argument is to be called once, when everything that engines can share
is in memory and no threads exist; the call returns in each engine."""


def run_standby(settings: StandbySettings, load: SharingLoader) -> int:
    """Load what engines share and fork them until the server is gone; returns the exit status."""
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
        # Loading failed, so there is nothing to fork: this process answers the first order with the
        # error.
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
    """End a fork without running what the standby has registered for its own exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class _Forks:
    """Forks this process for each engine that its server orders."""

    def __init__(self, control: int) -> None:
        self._socket = socket.socket(fileno=control)
        self._orders = self._socket.makefile("rb")
        self._settings: EngineSettings | None = None
        self.is_fork = False
        """Whether this process is a fork."""

    @property
    def settings(self) -> EngineSettings:
        """The settings of the engine that this process is."""
        assert self._settings is not None, "no engine was asked for"
        return self._settings

    def take_order(self) -> None:
        """Wait for the order of an engine; ends the process if the server is gone."""
        line = self._orders.readline()
        if not line:
            sys.exit(0)
        self._settings = read_order(line)

    def wait(self) -> None:
        """Fork for each engine that is ordered; returns in the fork."""
        while not self.is_fork:
            self.take_order()
            self._fork()

    def _fork(self) -> None:
        # The engine alone holds the write end, so it stays open as long as the engine lives.
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
        # The server sends nothing while an engine lives, so if the socket is readable, it is gone.
        ready, _, _ = select.select([self._socket.fileno(), living], [], [])
        os.close(living)
        if living not in ready:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        self._tell(Ended(os.waitstatus_to_exitcode(status)))

    def _tell(self, message: Forked | Ended) -> None:
        with suppress(OSError):  # take_order notices that the server is gone
            self._socket.sendall(write_line(message))
