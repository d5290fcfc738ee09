"""Lets web pages of other sites call the server from a browser, where the settings name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

__all__ = ["with_cors"]

_SHOWN_HEADERS: Final = (
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
)
"""Headers of answers that a page may read besides those that it always may."""


def with_cors(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Return an application whose answers pages of these origins may read; ``*`` is all of them.

    Tokens are sent in headers by the page itself, so no credentials of the browser are let in.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("*",),  # clients have headers of their own, such as x-stainless-lang
        expose_headers=_SHOWN_HEADERS,
        # A public page may call a server of a private network where its origin was named.
        allow_private_network="*" not in origins,
    )
