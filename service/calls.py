"""How the messages of calls are sent, and how the calls of all services end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import grpc.aio
from google.protobuf.message import Message

from guided.errors import DeadlineExceededError, RequestCancelledError
from guided_service.config import ServerConfig
from guided_service.status import Context, abort

__all__ = ["or_abort", "write_within"]

T = TypeVar("T")


class _UnreadError(RequestCancelledError):
    """The caller took no message for too long; one is still on its way."""

    def __init__(self, seconds: float, sending: asyncio.Future[None]) -> None:
        super().__init__(
            f"the caller took nothing of the answer for {seconds:g} s",
            hint="read faster, or ask for less at once",
        )
        self.sending = sending


async def write_within(seconds: float, message: Message, context: Context) -> None:
    """Send a message, once the caller has read enough of those before it.

    Raises RequestCancelledError where the caller takes it not within the time, and where it has
    left.
    """
    sending = asyncio.ensure_future(context.write(message))
    # Where the caller leaves, nobody is left to hear that it could not be sent.
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


async def or_abort(context: Context, work: Awaitable[T], config: ServerConfig, late: str) -> T:
    """The result of the work, or the end of the call with its error.

    ``late`` says what there is not where the call's deadline passes first.
    """
    try:
        async with asyncio.timeout(context.time_remaining()):
            return await work
    except TimeoutError:
        failure: Exception = DeadlineExceededError(
            f"the call's deadline passed before {late}",
            hint="allow more time, or ask for less",
        )
    except _UnreadError as error:
        failure = error
        # The transport takes no status before the message under way is read. All that the call
        # held is given back by now, so it can wait until the caller reads or leaves.
        await asyncio.wait({error.sending})
        error.sending.exception()
    except Exception as error:
        failure = error
    return await abort(context, failure, config.retry_after_seconds)
