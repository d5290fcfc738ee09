"""An error in the work for one request ends that request and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

from guided.errors import GuidedError, incident_of

__all__ = ["Isolation", "error_for", "is_of_request"]

_OF_THE_PROCESS: Final = (KeyboardInterrupt, SystemExit)
"""These ask the process to end, not a request."""


class Isolation:
    """Work for one request: an error in it goes to ``fail``, with the request's id, and no further.

    A fault of our own is caught as well, whatever its type: the neighbours in the batch have no
    part in it, and the request hears under which incident it is logged. ``MemoryError`` is no
    exception to that: what was asked for was not given, so everything else still has its memory,
    and what asked for too much goes with its request. Panics of compiled libraries, which derive
    from ``BaseException`` alone, are faults like others. Only what tells the process to end,
    ``KeyboardInterrupt`` and ``SystemExit``, is passed on; the engine is not to be used after it.
    """

    __slots__ = ("_fail", "_request_id")

    def __init__(self, request_id: str, fail: Callable[[str, GuidedError], None]) -> None:
        self._request_id = request_id
        self._fail = fail

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Tell ``fail`` of an error of the request; any other passes on to the engine."""
        # To return false passes the error on.
        if fault is None or not is_of_request(fault):
            return False
        self._fail(self._request_id, error_for(self._request_id, fault))
        # The fault is told to the caller of this request alone.
        return True


def is_of_request(fault: BaseException) -> bool:
    """Whether an error ends a request, and not the process."""
    return not isinstance(fault, _OF_THE_PROCESS)


def error_for(request_id: str, fault: BaseException) -> GuidedError:
    """The error that a request is answered with; a fault of our own is logged."""
    if isinstance(fault, GuidedError):
        return fault
    return incident_of(fault, f"the engine failed on request {request_id!r}")
