"""The outcomes of a batch as they come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from guided.client.answer import Answer, Completed
from guided.client.decode import decode_answer
from guided.client.request import Request
from guided.client.status import error_of_status
from guided.errors import GuidedError, InternalServiceError, RequestError
from guided.v1 import generation_pb2 as pb

__all__ = ["Batch", "checked_requests", "in_order"]

T = TypeVar("T")


class Batch(Generic[T]):
    """The requests of one call, and which of them have an outcome."""

    def __init__(self, requests: Sequence[Request[T]]) -> None:
        self._requests = requests
        self._open = set(range(len(requests)))

    def read(self, response: pb.GenerateBatchResponse) -> Completed[T]:
        """Take in one outcome."""
        index = response.index
        if index not in self._open:
            raise InternalServiceError(
                f"the server sent an outcome for request {index}, which awaits none"
            )
        self._open.remove(index)
        return Completed(index, self._outcome(self._requests[index], response))

    def check_complete(self) -> None:
        """Raise unless every request has its outcome."""
        if self._open:
            raise InternalServiceError(
                f"the server ended the batch without outcomes for requests {sorted(self._open)}"
            )

    def _outcome(
        self, request: Request[T], response: pb.GenerateBatchResponse
    ) -> Answer[T] | GuidedError:
        if response.WhichOneof("outcome") == "error":
            return error_of_status(response.error)
        try:
            return request.read(decode_answer(response.response))
        except GuidedError as error:
            return error


def checked_requests(requests: Iterable[Request[T]]) -> tuple[Request[T], ...]:
    """The requests of a call, or ``RequestError`` for what is none."""
    hint = "pass a list of guided.Request"
    if not isinstance(requests, Iterable):
        raise RequestError(
            f"{requests!r} is not a collection of requests", field="requests", hint=hint
        )
    checked = tuple(requests)
    for index, request in enumerate(checked):
        if not isinstance(request, Request):
            raise RequestError(
                f"item {index} is not a guided.Request but {request!r}",
                field="requests",
                hint=hint,
            )
    return checked


def in_order(completed: Iterable[Completed[T]]) -> list[Answer[T] | GuidedError]:
    """Outcomes in the order of their requests."""
    return [one.outcome for one in sorted(completed, key=_index)]


def _index(completed: Completed[Any]) -> int:
    return completed.index
