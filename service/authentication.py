"""Authenticates calls by their token, before their message is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

import grpc
import grpc.aio
from typing_extensions import override

from guided.bearer import token_of
from guided.errors import UnauthenticatedError
from guided_service.status import Context, abort
from guided_service.token_book import Token, TokenBook

__all__ = ["Authenticates", "shown_token"]

_HEADER: Final = "authorization"

_shown: ContextVar[tuple[str, Token] | None] = ContextVar("shown_token", default=None)


def shown_token() -> tuple[str, Token] | None:
    """Return the name and the limits of the token that the current call has shown."""
    return _shown.get()


class Authenticates(grpc.aio.ServerInterceptor):
    """Refuses calls without a known token, except calls to services open to all."""

    def __init__(self, book: TokenBook, open_to_all: frozenset[str], pause_seconds: float) -> None:
        self._book = book
        self._open_to_all = open_to_all
        self._pause_seconds = pause_seconds

    @override
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        service = handler_call_details.method.rpartition("/")[0].removeprefix("/")
        if service in self._open_to_all:
            return await continuation(handler_call_details)
        headers = [
            value
            for key, value in handler_call_details.invocation_metadata or ()
            if key == _HEADER and isinstance(value, str)
        ]
        shown = token_of(headers[0]) if len(headers) == 1 else None
        found = None if shown is None else self._book.find(shown)
        if found is None:
            # Declared as a stream of messages, so that it waits for none.
            return grpc.stream_stream_rpc_method_handler(self._refuse)
        # Only this call sees it: each call has its own task, and so its own context.
        _shown.set(found)
        return await continuation(handler_call_details)

    async def _refuse(self, _: object, context: Context) -> None:
        error = UnauthenticatedError(
            "the call shows no token that this server knows",
            hint="pass token=... to the client, or set GUIDED_TOKEN for the commands",
        )
        await abort(context, error, self._pause_seconds)
