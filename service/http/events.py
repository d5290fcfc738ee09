"""Encodes server-sent events, of which OpenAI's streams consist."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from guided_service.http.errors import JsonObject

__all__ = ["DONE", "event"]

DONE: Final = b"data: [DONE]\n\n"
"""The end of a stream of chunks."""

_encode = msgspec.json.Encoder().encode

_BREAKS: Final = re.compile("\x85|\u2028|\u2029".encode())
"""Unicode line breaks. None of them ends a line of an event, but clients that split lines by their
language's own rule believe so. They are escaped here; JSON escapes those of ASCII anyway."""


def event(data: JsonObject, name: str | None = None) -> bytes:
    """Encode an event, with a name in streams that name theirs."""
    named = b"" if name is None else b"event: " + name.encode() + b"\n"
    return b"".join((named, b"data: ", _BREAKS.sub(_escaped, _encode(data)), b"\n\n"))


def _escaped(found: re.Match[bytes]) -> bytes:
    return rb"\u%04x" % ord(found[0].decode())
