"""The names of requests: those given by callers, and the unique ids used in the engine."""

from __future__ import annotations

import re
from itertools import count
from typing import Final
from uuid import uuid4

from guided.errors import RequestError

__all__ = ["check_request_id", "engine_id_of", "is_name", "name_in", "name_of"]

_ID: Final = re.compile(r"[!-~]{1,128}")
"""Visible characters of ASCII, so that no name can forge a line of a log."""

_MARK: Final = "#"

_numbers: Final = count(1)


def check_request_id(request_id: str) -> None:
    """Raise ``RequestError`` for an invalid name; an empty one is allowed."""
    if request_id and not is_name(request_id):
        raise RequestError(
            f"request_id {request_id[:200]!r} is not 1 to 128 visible ASCII characters",
            field="request_id",
            hint="use a UUID",
        )


def is_name(request_id: str) -> bool:
    """Whether a caller may give its request this name."""
    return _ID.fullmatch(request_id) is not None


def name_of(request_id: str) -> str:
    """Return the caller's name of its request, or a new one if it is invalid."""
    return request_id if is_name(request_id) else uuid4().hex


def engine_id_of(name: str) -> str:
    """``job-7`` -> ``job-7#12``: an id that no other request has, whatever names callers choose."""
    return f"{name}{_MARK}{next(_numbers)}"


def name_in(engine_id: str) -> str:
    """``job-7#12`` -> ``job-7``: the name of the request that has this id in the engine."""
    return engine_id.rpartition(_MARK)[0]
