"""Where the server's log goes, and in which form."""

from __future__ import annotations

import logging
import sys

import structlog

__all__ = ["configure_logs"]


def configure_logs() -> None:
    """Write one line an event to standard error, from INFO up; so does what the library logs."""
    before: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    lines = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(),
        # Others print local variables, and with them what users sent.
        exception_formatter=structlog.dev.plain_traceback,
    )
    structlog.configure(
        processors=[*before, lines],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, lines],
        )
    )
    library = logging.getLogger("guided")
    library.handlers = [handler]
    library.setLevel(logging.INFO)
    library.propagate = False
