"""Configures the server's log: its stream, its format, and its lines about a start."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

import structlog

from guided_service.log_stream import LossyStream
from guided_service.messages import LogChoice

__all__ = ["LoggedProgress", "configure_logs"]

_SILENCE_SECONDS = 3.0
"""Time after which a running step is logged; each next pause is twice as long."""

_log = structlog.get_logger()


def configure_logs(choice: LogChoice) -> None:
    """Write one line per event to standard error, for the library's logs and warnings too.

    A line that is written while a request is served has the request's id. Python warns of patterns
    that later versions may read in another way, and OpenTelemetry of headers, so what a caller
    sends may cause a warning.
    """
    is_terminal = sys.stderr.isatty()
    is_json = choice.form == "json" or (choice.form == "auto" and not is_terminal)
    lossy = LossyStream(sys.stderr, _json_of_lost) if is_json else LossyStream(sys.stderr)
    stream = cast("TextIO", lossy)
    level = logging.getLevelNamesMapping()[choice.level.upper()]
    before: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,  # the request that a line is about
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    lines = _json_lines() if is_json else _console_lines(is_terminal)
    structlog.configure(
        processors=[*before, *lines],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *lines],
        )
    )
    logging.captureWarnings(capture=True)
    for name in ("guided", "py.warnings", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def _json_of_lost(count: int) -> str:
    told = {"event": "lines of the log were lost", "lines": count, "level": "warning"}
    return json.dumps(told) + "\n"


def _json_lines() -> list[structlog.typing.Processor]:
    # As one text: structured tracebacks contain local variables, and so what users sent.
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _console_lines(is_terminal: bool) -> list[structlog.typing.Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=is_terminal,
            # Other formatters print local variables, and so what users sent.
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]


class LoggedProgress:
    """Logs each step with its seconds when it is done; a long one is also logged while it runs."""

    def __init__(self, silence_seconds: float = _SILENCE_SECONDS) -> None:
        self._silence_seconds = silence_seconds

    @contextmanager
    def step(
        self, title: str, *, total_bytes: int | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Time a step; the bytes done are shown if it takes long."""
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
        """Log a line."""
        _log.info(text)
