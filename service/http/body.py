"""Reads bodies of calls within bounds of size and time, and counts their values before parsing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive

from guided.errors import LimitExceededError, RequestCancelledError, RequestError
from guided.spec.exact_json import has_more_values
from guided_service.config import ServerConfig
from guided_service.held_bytes import CALL_BYTES, count_held
from guided_service.http.errors import RefusedCallError, TooLargeError
from guided_service.http.members import may_repeat_members, repeated_member

__all__ = ["check_values", "read_body", "read_json"]


async def read_body(headers: Headers, receive: Receive, config: ServerConfig) -> bytes:
    """Return the body of a call, whose header must declare JSON, and count it in what it holds.

    Raises TooLargeError, OverloadedError if calls hold too much, and RefusedCallError for a body
    that does not come in time.
    """
    _check_kind(headers)
    _check_size(_told_size(headers), config.max_message_bytes)
    try:
        async with asyncio.timeout(config.stall_seconds):
            return await _collected(receive, config.max_message_bytes)
    except TimeoutError as error:
        raise RefusedCallError(
            f"the body of the call did not come within {config.stall_seconds:g} s",
            status=408,
            hint="send it at once",
        ) from error


async def _collected(receive: Receive, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    count_held(CALL_BYTES)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestCancelledError("the caller left before its call was read")
        piece = message.get("body", b"")
        size += len(piece)
        _check_size(size, most_bytes)
        count_held(len(piece))
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise TooLargeError(
            f"the body of the call has {size} bytes or more, above the limit of {most_bytes}",
            limit=most_bytes,
            hint="send less in one call",
        )


def read_json(body: bytes, most_values: int) -> dict[str, Any]:
    """Return the object that a body holds; raises RequestError for anything else, and for members
    named twice."""
    check_values(body, most_values)
    try:
        read = msgspec.json.decode(body)
        repeated = repeated_member(body) if may_repeat_members(body, read) else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body of the call is not JSON: {error}".lower()) from error
    except RecursionError as error:
        raise RequestError("the body of the call nests too deeply") from error
    if not isinstance(read, dict):
        raise RequestError(f"the body of the call is a {type(read).__name__}, no object")
    if repeated is not None:
        raise RequestError(
            f"an object in the body of the call has {repeated!r} twice", field=repeated
        )
    return read


def check_values(body: bytes, most: int) -> None:
    """Raise LimitExceededError for a body of more than ``most`` values, before any is made."""
    if has_more_values(body, most):
        raise LimitExceededError(
            f"the body of the call has more than {most} values",
            limit=most,
            hint="send less in one call, or raise the server's max_message_fields",
        )


def _check_kind(headers: Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A page of another site cannot send this type without a preflight request.
        raise RefusedCallError(
            f"the content-type of the call is {kind[:100]!r}",
            status=415,
            hint="send application/json",
        )
    if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
        raise RefusedCallError(
            f"the content-encoding of the call is {coding[:100]!r}",
            status=415,
            hint="send it as it is",
        )


def _told_size(headers: Headers) -> int:
    """Return the size in the header; the transport refuses one that is no number."""
    told = headers.get("content-length", "0")
    return int(told) if told.isdecimal() else 0
