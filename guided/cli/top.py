"""The command ``guided top``."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from guided.cli.common import shown_with
from guided.cli.connection_flags import connection_flags, read_connection_flags
from guided.cli.flags import with_flags
from guided.cli.top_view import view
from guided.errors import ServiceError
from guided.stats import EngineStats, ModelInfo

if TYPE_CHECKING:
    from guided.client import Client

__all__ = ["History", "top"]

_WINDOW_SECONDS: Final = 10.0
"""Rates cover this many seconds, so that a pause between two answers does not blank them."""

_PATIENCE_SECONDS: Final = 10.0
"""How long a server may take to report something new, if only one frame is wanted."""


@shown_with(
    "guided top",
    "guided top --address localhost:50051 --interval 2",
    "guided top --once > figures.txt",
)
@with_flags(*connection_flags())
def top(
    address: Annotated[
        str, typer.Option(help="Address of the server.", envvar="GUIDED_ADDRESS")
    ] = "localhost:50051",
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    **connection: Any,
) -> None:
    """Watch a server: requests, tokens per second, drafters, cache, and where its time goes.

    Press q or Ctrl-C to quit. Rates cover the last ten seconds.
    """
    from guided.client import Client

    with Client(address, timeout=5.0, **read_connection_flags(connection)) as client:
        if once:
            Console().print(_frame_once(client, address, interval))
            return
        with _interrupts() as is_left, suppress(KeyboardInterrupt):
            _watch(client, address, interval, is_left)


class History:
    """Recent statistics of a server, from one life of its engine."""

    def __init__(self, window_seconds: float = _WINDOW_SECONDS) -> None:
        self._window = window_seconds
        self._told: deque[EngineStats] = deque()

    def add(self, stats: EngineStats) -> None:
        """Add statistics; the counters of a new engine begin at 0."""
        if self._told and stats.seconds < self._told[-1].seconds:
            self._told.clear()
        # The server returns the same until its engine reports again.
        if not self._told or stats.seconds > self._told[-1].seconds:
            self._told.append(stats)
        else:
            self._told[-1] = stats
        while self._told[-1].seconds - self._told[0].seconds > self._window:
            self._told.popleft()

    @property
    def span(self) -> tuple[EngineStats, EngineStats]:
        """The earliest and the latest statistics in the window."""
        return self._told[0], self._told[-1]

    @property
    def has_rates(self) -> bool:
        """Whether time has passed between the two."""
        earliest, latest = self.span
        return latest.seconds > earliest.seconds


def _frame_once(client: Client, address: str, interval: float) -> RenderableType:
    """Return a frame with the rates between two reports, or without if none follows."""
    model, history = client.model(), History()
    history.add(client.stats())
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not history.has_rates and time.monotonic() < deadline:
        time.sleep(interval)
        history.add(client.stats())
    return view(model, address, *history.span)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed, which raises KeyboardInterrupt.

    The function is needed because gRPC's callbacks swallow the exception if it is raised in one.
    """
    pressed = False

    def press(_number: int, _frame: object) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(client: Client, address: str, interval: float, is_left: Callable[[], bool]) -> None:
    history = History()
    shown: RenderableType = Text(f"asking {address} ...", style="dim")
    with (
        Live(shown, console=Console(), screen=True, auto_refresh=False) as live,
        _asked_to_leave() as asked,
    ):
        while not is_left():
            live.update(_frame(client, address, history), refresh=True)
            if asked(interval):
                return


def _frame(client: Client, address: str, history: History) -> RenderableType:
    """Return the next frame, which says so if the server does not answer."""
    try:
        model: ModelInfo = client.model()
        history.add(client.stats())
    except ServiceError as error:
        return Text.assemble((f"{address}: ", "bold"), (str(error), "red"))
    return view(model, address, *history.span)


@contextmanager
def _asked_to_leave() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits this many seconds and returns whether q was pressed meanwhile."""
    # Windows has no such terminals; there Ctrl-C leaves.
    if sys.platform == "win32" or not sys.stdin.isatty():

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def wait_for_key(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([terminal], [], [], left)
            if readable:
                pressed = os.read(terminal, 64)
                if not pressed or b"q" in pressed.lower():  # nothing: the terminal is gone
                    return True
        return False

    tty.setcbreak(terminal)
    try:
        yield wait_for_key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
