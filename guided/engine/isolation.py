"""What goes wrong with one request ends that request and no other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final

from guided.errors import GuidedError

__all__ = ["Isolation"]

_log: Final = logging.getLogger(__name__)


class Isolation:
    """Work for one request: an error in it goes to ``fail``, with the request's id, and no further.

    A fault of our own is caught as well, and logged: the neighbours in the batch have no part in
    it, and the request hears that its engine failed.
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
        if not isinstance(fault, Exception):
            return False
        self._fail(self._request_id, self._told(fault))
        return True

    def _told(self, fault: Exception) -> GuidedError:
        """What the request hears."""
        if isinstance(fault, GuidedError):
            return fault
        _log.error("request %r failed inside the engine", self._request_id, exc_info=fault)
        failure = GuidedError(
            f"the engine failed on request {self._request_id!r}: {type(fault).__name__}: {fault}",
            hint="this is a fault of the engine; its log holds the details",
        )
        failure.__cause__ = fault
        return failure
