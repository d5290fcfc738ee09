"""What the calls of all services have in common: a bound on their messages, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from guided.errors import DeadlineExceededError, LimitExceededError
from guided_service.config import ServerConfig
from guided_service.status import Context, abort

__all__ = ["check_size", "or_abort"]

T = TypeVar("T")


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
    except Exception as error:
        failure = error
    return await abort(context, failure, config.retry_after_seconds)


def check_size(size: int, config: ServerConfig) -> int:
    """The size of a call's message in bytes, or LimitExceededError."""
    limit = config.max_message_bytes
    if size > limit:
        raise LimitExceededError(
            f"the call's message has {size} bytes, above the limit of {limit}",
            limit=limit,
            hint="send less in one call",
        )
    return size
