"""Ending a call with the status of an error."""

from __future__ import annotations

from typing import Any, Never, TypeAlias

import grpc
import grpc.aio

from guided.errors import GuidedError, InternalServiceError
from guided.incident import incident_of
from guided_service.status import status_code_of, status_of, trailers_of

__all__ = ["Context", "abort", "shown"]

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


async def abort(context: Context, error: Exception, retry_after_seconds: float) -> Never:
    """End a call with what its caller may see of an error."""
    failure = shown(error)
    status = status_of(failure, retry_after_seconds)
    await context.abort(status_code_of(failure), status.message, trailers_of(status))
    raise AssertionError("a call went on after its end")


def shown(error: Exception) -> GuidedError:
    """What the caller may see: faults of the service only by the id of their incident."""
    if isinstance(error, InternalServiceError):
        return error
    if isinstance(error, GuidedError) and status_code_of(error) is not grpc.StatusCode.INTERNAL:
        return error
    return incident_of(error)
