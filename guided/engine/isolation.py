"""Isolation: an error in the work for one request ends that request and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

from guided.errors import GuidedError, incident_of

__all__ = ["Isolation", "error_for", "is_of_request"]

_OF_THE_PROCESS: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end the process, not a request."""


class Isolation:
    """Work for one request: an error in it goes to ``fail``, with the request's id, and no further.

    A fault of our own is caught as well, whatever its type: the neighbours in the batch have no
    part in it, and the request reports the incident under which it is logged. ``MemoryError`` is
    no exception: the memory requested was not given, so everything else still has its memory, and
    whatever wanted too much goes with its request. Panics of compiled libraries, which derive from
    ``BaseException`` alone, are faults like others. Only exceptions that end the process,
    ``KeyboardInterrupt`` and ``SystemExit``, are passed on; the engine must not be used afterwards.
    """

    __slots__ = ("_fail", "_request_id")

    def __init__(self, request_id: str, fail: Callable[[str, GuidedError], None]) -> None:
        self._request_id = request_id
        self._fail = fail

    def __enter__(self) -> None:
        """Begin the work."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Report an error of the request to ``fail``; any other passes on to the engine."""
        # Returning false passes the error on.
        if fault is None or not is_of_request(fault):
            return False
        self._fail(self._request_id, error_for(self._request_id, fault))
        # Only the caller of this request hears of the fault.
        return True


def is_of_request(fault: BaseException) -> bool:
    """Whether an error ends a request, and not the process."""
    return not isinstance(fault, _OF_THE_PROCESS)


def error_for(request_id: str, fault: BaseException) -> GuidedError:
    """Return the error that answers a request; a fault of our own is logged."""
    if isinstance(fault, GuidedError):
        return fault
    return incident_of(fault, f"the engine failed on request {request_id!r}")
