"""Sends the requests of a batch: as many at once as the server takes.

::

    requests ──▶ unread ──▶ in flight ──▶ Completed
                   ▲  (lazily)  │ turned away
                   └── paused ◀─┘

``Window`` itself neither sends nor waits, so both clients share it.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import grpc

from guided.client.answer import Answer, Completed
from guided.client.decode import decode_answer
from guided.client.request import Request
from guided.client.retry import Attempts
from guided.client.tries import Tries
from guided.errors import GuidedError, RequestError
from guided.v1 import generation_pb2 as pb
from guided.wire_request import encode_request

__all__ = ["Asked", "Ending", "Window", "in_order", "message_of", "stream_message_of"]

T = TypeVar("T")

Ending: TypeAlias = pb.GenerateResponse | grpc.RpcError
"""How an attempt at one request ended."""

_HINT = "pass a list of guided.Request"


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """One request of a batch, and the attempts at it."""

    index: int
    tries: Tries[T]
    message: pb.GenerateRequest
    attempts: Attempts
    name: str
    """The name of the first try."""

    @classmethod
    def of(cls, index: int, request: Request[T], attempts: Attempts) -> Asked[T]:
        """Make the first try."""
        message = message_of(request, attempts)
        return cls(index, Tries(request), message, attempts, attempts.request_id)

    def outcome(self, response: pb.GenerateResponse) -> Answer[T] | GuidedError | None:
        """Return the outcome of the server's response; ``None`` if another try follows."""
        self.attempts.succeed()
        try:
            return self.tries.read(decode_answer(response, self.attempts.request_id))
        except GuidedError as error:
            return self.attempts.named(error)

    def next_try(self) -> Asked[T]:
        """Return the next try at the same place in the batch, after a refused answer."""
        attempts = self.attempts.renewed(self.tries.name(self.name))
        message = message_of(self.tries.request, attempts)
        return replace(self, message=message, attempts=attempts)


class Window(Generic[T]):
    """Decides which requests of a batch are sent next, and takes their responses.

    When the server reports that it is full, the window narrows to what is in flight; each time that
    as many as it holds were answered, it widens by one request.
    """

    def __init__(
        self,
        requests: Iterable[Request[T]],
        concurrency: int,
        attempts: Callable[[Request[Any]], Attempts],
    ) -> None:
        """Raises ``RequestError`` for a wrong item of a collection; one of an iterator, whose
        items are read in turn, has it as its outcome."""
        self._unread = _items(requests)
        self._num_read = 0
        self._attempts = attempts
        self._most = concurrency
        self._room = float(concurrency)
        self._in_flight = 0
        self._paused: list[tuple[float, int, Asked[T]]] = []
        """Refused requests, the next one due first."""
        self._unsendable: list[Completed[T]] = []
        """Outcomes of what was read but cannot be sent."""
        self._is_read = False

    @property
    def is_open(self) -> bool:
        """Whether any request has no outcome yet."""
        return not (self._is_read and not self._in_flight and not self._paused)

    def due(self) -> Iterator[Asked[T]]:
        """Yield the requests to send now, counting them as in flight."""
        while self._in_flight < int(self._room):
            asked = self._next()
            if asked is None:
                return
            self._in_flight += 1
            yield asked

    def take_unsendable(self) -> list[Completed[T]]:
        """Return the outcomes of requests that cannot be sent; if any, others may be due."""
        taken, self._unsendable = self._unsendable, []
        return taken

    def seconds_to_wait(self) -> float | None:
        """Return the seconds to wait for a response before others are due; ``None``: no limit."""
        if not self._paused or self._in_flight >= int(self._room):
            return None
        return max(self._paused[0][0] - time.monotonic(), 0.0)

    def settle(self, asked: Asked[T], ending: Ending) -> Completed[T] | None:
        """Take the end of an attempt; returns ``None`` if another attempt follows."""
        self._in_flight -= 1
        if not isinstance(ending, grpc.RpcError):
            self._room = min(self._most, self._room + 1 / self._room)
            outcome = asked.outcome(ending)
            if outcome is not None:
                return Completed(asked.index, outcome)
            try:
                self._pause(asked.next_try(), 0.0)
            except GuidedError as error:
                return Completed(asked.index, asked.attempts.named(error))
            return None
        if _is_overload(ending):
            self._room = float(max(1, self._in_flight))
        try:
            pause = asked.attempts.pause(ending)
        except GuidedError as error:
            return Completed(asked.index, error)
        self._pause(asked, pause)
        return None

    def _pause(self, asked: Asked[T], seconds: float) -> None:
        heapq.heappush(self._paused, (time.monotonic() + seconds, asked.index, asked))

    def _next(self) -> Asked[T] | None:
        if self._paused and self._paused[0][0] <= time.monotonic():
            return heapq.heappop(self._paused)[2]
        # Refused requests keep their places; otherwise the whole iterator would be read for
        # nothing.
        if self._is_read or self._in_flight + len(self._paused) >= self._most:
            return None
        index = self._num_read
        try:
            request = next(self._unread)
        except StopIteration:
            self._is_read = True
            return None
        except Exception as error:  # the caller's own code, which must cost no answer before it
            self._is_read = True
            self._refuse(index, _ended_by(error))
            return None
        self._num_read += 1
        try:
            _check(index, request)
        except RequestError as error:
            self._refuse(index, error)
            return None
        attempts = self._attempts(request)
        try:
            return Asked.of(index, request, attempts)
        except GuidedError as error:  # a text that is not Unicode, say
            self._refuse(index, attempts.named(error))
            return None

    def _refuse(self, index: int, error: GuidedError) -> None:
        self._unsendable.append(Completed(index, error))


def message_of(request: Request[Any], attempts: Attempts) -> pb.GenerateRequest:
    """Return the message of a request, under the name by which the server recognises it."""
    message = encode_request(request.specification)
    message.request_id = attempts.request_id
    return message


def stream_message_of(request: Request[Any], attempts: Attempts) -> pb.GenerateStreamRequest:
    """Return the message for a stream of a request."""
    asked = request.specification
    # Of a single answer without tools a detailed stream says nothing more.
    is_detailed = asked.has_candidates or asked.tools is not None
    return pb.GenerateStreamRequest(request=message_of(request, attempts), detailed=is_detailed)


def in_order(completed: Iterable[Completed[T]]) -> list[Answer[T] | GuidedError]:
    """Return outcomes in the order of their requests."""
    return [one.outcome for one in sorted(completed, key=_index)]


def _index(completed: Completed[Any]) -> int:
    return completed.index


def _items(requests: Iterable[Request[T]]) -> Iterator[Request[T]]:
    if not isinstance(requests, Iterable):
        raise RequestError(
            f"{requests!r} is not a collection of requests", field="requests", hint=_HINT
        )
    if isinstance(requests, Collection):
        for index, request in enumerate(requests):
            _check(index, request)
    return iter(requests)


def _ended_by(error: Exception) -> RequestError:
    """Return the last outcome of requests whose iterator raised an error."""
    ended = RequestError(
        f"the iterator of requests ended with {type(error).__name__}: {error}",
        field="requests",
        hint="the requests after this one were not read; ask for them again",
    )
    ended.__cause__ = error
    return ended


def _check(index: int, request: Request[T]) -> None:
    if not isinstance(request, Request):
        raise RequestError(
            f"item {index} is not a guided.Request but {request!r}", field="requests", hint=_HINT
        )


def _is_overload(error: grpc.RpcError) -> bool:
    return isinstance(error, grpc.Call | grpc.aio.AioRpcError) and (
        error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    )
