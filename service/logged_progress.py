"""What a start is doing, as lines of the server's log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

__all__ = ["LoggedProgress"]

_SILENCE_SECONDS = 3.0
"""After which a step that still runs says so; the next pause is twice as long, and so on."""

_log = structlog.get_logger()


class LoggedProgress:
    """A line for each step once it is done, with its seconds; a long one says before what it is."""

    def __init__(self, silence_seconds: float = _SILENCE_SECONDS) -> None:
        self._silence_seconds = silence_seconds

    @contextmanager
    def step(
        self, title: str, *, total_bytes: int | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Time a step; its bytes done show where it takes long."""
        begun, done, ended = time.monotonic(), [0], threading.Event()

        def report(count: int) -> None:
            done[0] = count

        def tell() -> None:
            silence = self._silence_seconds
            while not ended.wait(silence):
                silence *= 2
                share = {"percent": 100 * done[0] // total_bytes} if total_bytes else {}
                _log.info(f"{title} ...", seconds=round(time.monotonic() - begun, 1), **share)

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield report
        finally:
            ended.set()
            teller.join()
        _log.info(title, seconds=round(time.monotonic() - begun, 2))

    def note(self, text: str) -> None:
        """A line of its own."""
        _log.info(text)
