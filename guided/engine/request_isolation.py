"""Isolation: an error in the work for one request ends that request and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

from guided.errors import GuidedError, incident_of
from guided.runtime.tracebacks import drop_tracebacks

__all__ = ["RequestIsolation", "as_guided_error", "is_request_error"]

_PROCESS_EXITS: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end the process, not a request."""


class RequestIsolation:
    """A context for work of one request: an error in it is passed to ``fail`` and not raised.

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
        """Enter the context; nothing is to be prepared."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Report an error of the request to ``fail``; any other passes on to the engine."""
        # Returning false passes the error on.
        if fault is None or not is_request_error(fault):
            return False
        self._fail(self._request_id, as_guided_error(self._request_id, fault))
        # Only the caller of this request hears of the fault.
        return True


def is_request_error(fault: BaseException) -> bool:
    """Whether an error ends only its request, and not the process."""
    return not isinstance(fault, _PROCESS_EXITS)


def as_guided_error(request_id: str, fault: BaseException) -> GuidedError:
    """Return ``fault`` as the error that answers a request; logs it if it is a fault of our own.

    An error that is no fault loses its traceback, which refers to all that was made for the request
    and often to what holds the error.
    """
    if isinstance(fault, GuidedError):
        drop_tracebacks(fault)
        return fault
    return incident_of(fault, f"the engine failed on request {request_id!r}")
