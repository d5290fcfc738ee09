"""Serves the files of a page, with headers that keep all foreign content out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final
from uuid import uuid4

from starlette.types import Receive, Scope, Send

from guided_service.http.call import Face, Response

__all__ = ["PageFile", "Redirect", "page_files"]

_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "index.html"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Scripts and styles come only from this server, and none are inline."""
_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    # After an update the server has different files under the same names.
    ("cache-control", "no-cache"),
)


class PageFile:
    """Serves one file to everybody: it contains nothing specific to this server."""

    def __init__(self, face: Face, name: str, content: bytes) -> None:
        self._face = face
        self._kind = _KINDS[name[name.rindex(".") :]]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        response = Response(scope, send, uuid4().hex, self._face.config.stall_seconds)
        await response.content(self._content, self._kind, 200, _HEADERS)


class Redirect:
    """Redirects a path to another one, given relative to it."""

    def __init__(self, face: Face, target: str) -> None:
        self._face = face
        self._target = target

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        response = Response(scope, send, uuid4().hex, self._face.config.stall_seconds)
        await response.content(b"", "text/plain", 308, (("location", self._target),))


def page_files() -> Iterator[tuple[str, bytes]]:
    """Yield the playground's files by name; its page has an empty name."""
    # Found through ``guided``: importing guided.inspection would load what only engines need.
    colors = files("guided") / "inspection" / "colors.css"
    yield colors.name, colors.read_bytes()
    for file in (files("guided_service") / "http" / "page").iterdir():
        yield "" if file.name == _INDEX else file.name, file.read_bytes()
