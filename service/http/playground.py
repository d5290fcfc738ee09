"""The playground: a page in the browser, and the calls it makes besides those of OpenAI's API.

Its headers keep all foreign content out, and its calls are admitted like all others; see
docs/playground.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final
from uuid import uuid4

from starlette.types import ASGIApp, Receive, Scope, Send

from guided_service.http.call import Answers, Face, Response
from guided_service.http.findings import Findings, describe_mask, read_drawing
from guided_service.http.watched import read_watched

__all__ = ["playground_gets", "playground_posts"]

_PATH: Final = "/playground"


def playground_gets(face: Face) -> dict[str, ASGIApp]:
    """Return the page and its files, by path."""
    pages = {
        f"{_PATH}/{name}": _PageFile(face, name or ".html", text) for name, text in _page_files()
    }
    # Relative, so that the page finds its files below the path.
    return {_PATH: _Redirect(face, f"{_PATH[1:]}/"), **pages}


def playground_posts(face: Face) -> dict[str, ASGIApp]:
    """Return the playground's calls, by path."""
    return {
        f"{_PATH}/answer": Answers(
            face, "playground.answer", "watched-", read_watched, is_watched=True
        ),
        f"{_PATH}/mask": Findings(face, "playground.mask", describe_mask),
        f"{_PATH}/automaton": Findings(face, "playground.automaton", read_drawing),
    }


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


class _PageFile:
    """Serves one file to everybody: it contains nothing specific to this server."""

    def __init__(self, face: Face, name: str, content: bytes) -> None:
        self._face = face
        self._kind = _KINDS[name[name.rindex(".") :]]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        response = Response(scope, send, uuid4().hex, self._face.config.stall_seconds)
        await response.content(self._content, self._kind, 200, _HEADERS)


class _Redirect:
    """Redirects a path to another one, given relative to it."""

    def __init__(self, face: Face, target: str) -> None:
        self._face = face
        self._target = target

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        response = Response(scope, send, uuid4().hex, self._face.config.stall_seconds)
        await response.content(b"", "text/plain", 308, (("location", self._target),))


def _page_files() -> Iterator[tuple[str, bytes]]:
    """Yield the playground's files by name; its page has an empty name."""
    # Found through ``guided``: importing guided.inspection would load what only engines need.
    colors = files("guided") / "inspection" / "colors.css"
    yield colors.name, colors.read_bytes()
    for file in (files("guided_service") / "http" / "page").iterdir():
        yield "" if file.name == _INDEX else file.name, file.read_bytes()
