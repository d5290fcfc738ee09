"""Logs a line for each request that has ended, outside the event loop.

Lines wait for room in the log, whose reader may stop reading, and beyond a bound they are lost.
Requests are served all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Full, Queue
from typing import Final

import structlog

from guided_service.log_stream import wait_for_room
from guided_service.request_record import RequestRecord

__all__ = ["RequestLog", "log_request"]

_log = structlog.get_logger()

_MOST_LINES: Final = 10_000
"""How many lines may wait to be written."""

_LAST_LINES_SECONDS: Final = 1.0
"""How long the last lines may take when the server ends."""

_DIGITS: Final = 6
"""Digits of seconds in the log."""


def log_request(record: RequestRecord) -> None:
    """Log a request that has ended, without anything of its prompt or answer."""
    if not _log.is_enabled_for(logging.INFO):
        return
    seconds = {
        "seconds": record.seconds,
        "queue_seconds": record.queue_seconds,
        **_engine_seconds(record),
    }
    usage = record.usage
    tokens = {} if usage is None else {
        "prompt_tokens": usage.prompt_tokens,
        "reused_tokens": usage.reused_tokens,
        "output_tokens": usage.output_tokens,
        "forced_tokens": usage.forced_tokens,
        "model_calls": usage.model_calls,
    }  # fmt: skip
    told: dict[str, object] = {
        "request_id": record.request_id,
        "call_id": record.call_id,
        "index": record.index,
        "repeat": record.is_repeat or None,
        "trace_id": record.trace_id,
        "method": record.method,
        "peer": record.peer,
        "client": record.client,
        "status": record.status,
        "error": record.error,
        "constraint": record.constraint,
        "finish_reason": ",".join(record.finish_reasons) or None,
        **{name: None if held is None else round(held, _DIGITS) for name, held in seconds.items()},
        **tokens,
    }
    _log.info(
        record.event,
        **{name: value for name, value in told.items() if value is not None},
    )


def _engine_seconds(record: RequestRecord) -> dict[str, float | None]:
    """Return the seconds that an answered request compiled, waited, and computed."""
    timing, seconds = record.timing, record.engine_seconds
    if timing is None or seconds is None:
        return {}
    begun = timing.compiling_seconds + timing.waiting_seconds
    first = timing.first_token_seconds
    return {
        "compile_seconds": timing.compiling_seconds,
        "wait_seconds": timing.waiting_seconds,
        "prefill_seconds": None if first is None else first - begun,
        "decode_seconds": seconds - (begun if first is None else first),
    }


class RequestLog:
    """Writes lines from a thread of its own, in their order."""

    def __init__(
        self,
        write: Callable[[RequestRecord], None] = log_request,
        most_lines: int = _MOST_LINES,
    ) -> None:
        self._write = write
        self._waiting: Queue[RequestRecord | None] = Queue(most_lines)
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="request log", daemon=True)
        self._thread.start()

    def add(self, record: RequestRecord) -> None:
        """Queue the line of a request, without waiting."""
        try:
            self._waiting.put_nowait(record)
        except Full:
            self._lost += 1

    def close(self) -> None:
        """Write the waiting lines, as far as the log is read."""
        try:
            self._waiting.put_nowait(None)
        except Full:
            return  # nobody reads the log
        self._thread.join(_LAST_LINES_SECONDS)

    def _run(self) -> None:
        reported = 0
        while (record := self._waiting.get()) is not None:
            wait_for_room()  # else the stream would lose the line
            self._write(record)
            # The event loop counts on meanwhile: lines lost now are reported next time.
            lost = self._lost
            if lost > reported:
                _log.warning("lines of requests were lost", count=lost - reported)
                reported = lost
