"""Server-sent events, as OpenAI's streams are made of them."""

from __future__ import annotations

from typing import Final

import msgspec

from guided_service.http.errors import JsonObject

__all__ = ["DONE", "event"]

DONE: Final = b"data: [DONE]\n\n"
"""The end of a stream of chunks."""

_encode = msgspec.json.Encoder().encode


def event(data: JsonObject, name: str | None = None) -> bytes:
    """One event, with the name that some streams give theirs."""
    named = b"" if name is None else b"event: " + name.encode() + b"\n"
    return b"".join((named, b"data: ", _encode(data), b"\n\n"))
