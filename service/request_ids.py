"""The name that a caller gives a request, by which its log lines and its errors are found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from guided.errors import RequestError

__all__ = ["check_request_id", "current_request_id", "named"]

_ID: Final = re.compile(r"[!-~]{1,128}")
"""Visible characters of ASCII, so that no name can forge a line of a log."""

_KEY: Final = "request_id"


def check_request_id(request_id: str) -> None:
    """Raise ``RequestError`` for what may not be a name; none at all may."""
    if request_id and _ID.fullmatch(request_id) is None:
        raise RequestError(
            f"request_id {request_id[:200]!r} is not of 1 to 128 visible characters of ASCII",
            field=_KEY,
            hint="use a UUID",
        )


@contextmanager
def named(request_id: str) -> Iterator[None]:
    """Put the name of a request into the log lines and the errors that are made inside."""
    if _ID.fullmatch(request_id) is None:  # none, or one that is refused
        yield
        return
    with structlog.contextvars.bound_contextvars(**{_KEY: request_id}):
        yield


def current_request_id() -> str:
    """The name of the request that is being answered, empty where it has none."""
    return str(structlog.contextvars.get_contextvars().get(_KEY, ""))
