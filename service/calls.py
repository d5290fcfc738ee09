"""Sends the messages of calls, and ends the calls of all services."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Protocol, TypeVar

import grpc.aio
from google.protobuf.message import Message

from guided.errors import DeadlineExceededError, RequestCancelledError
from guided_service.config import ServerConfig
from guided_service.status import Context, abort

__all__ = ["aborts_on_error", "or_abort", "write_within"]

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound="_Servicer")
T = TypeVar("T")


class _UnreadError(RequestCancelledError):
    """The caller read nothing for too long; a message is still being sent."""

    def __init__(self, seconds: float, sending: asyncio.Future[None]) -> None:
        super().__init__(
            f"the caller read nothing of the answer for {seconds:g} s",
            hint="read faster, or ask for less at once",
        )
        self.sending = sending


async def write_within(seconds: float, message: Message, context: Context) -> None:
    """Send a message, once the caller has read enough of those before it.

    Raises RequestCancelledError if the caller does not read it in time or has left.
    """
    sending = asyncio.ensure_future(context.write(message))
    # If the caller leaves, nobody is left to retrieve the error of sending.
    sending.add_done_callback(_hear)
    if not (await asyncio.wait({sending}, timeout=seconds))[0]:
        raise _UnreadError(seconds, sending)
    try:
        sending.result()
    except grpc.aio.InternalError as error:  # the transport's word for a call that is over
        raise RequestCancelledError("the caller left before its answer was sent") from error


def _hear(sending: asyncio.Future[None]) -> None:
    if not sending.cancelled():
        sending.exception()


async def or_abort(context: Context, work: Awaitable[T], config: ServerConfig) -> T:
    """Return the result of the work, or end the call with its error."""
    try:
        async with asyncio.timeout(context.time_remaining()):
            return await work
    except TimeoutError:
        failure: Exception = DeadlineExceededError(
            "the call's deadline passed before its answer was complete",
            hint="allow more time, or ask for less",
        )
    except _UnreadError as error:
        failure = error
        # The transport accepts no status until the message being sent is read. The call holds
        # nothing any more, so it can wait until the caller reads or leaves.
        await asyncio.wait({error.sending})
        error.sending.exception()
    except Exception as error:
        failure = error
    return await abort(context, failure, config.retry_after_seconds)


class _Servicer(Protocol):
    _config: ServerConfig


def aborts_on_error(
    method: Callable[[S, M, Context], Awaitable[T]],
) -> Callable[[S, M, Context], Coroutine[None, None, T]]:
    """Make a servicer's method end its call with the error that it raises; see ``or_abort``."""

    @wraps(method)
    async def answer(self: S, request: M, context: Context) -> T:
        return await or_abort(context, method(self, request, context), self._config)

    return answer
