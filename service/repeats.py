"""Lets repeated requests of the same id share one answer.

::

    id unknown ──▶ under way ──▶ finished, for two minutes ──▶ forgotten
                      ▲ joins        ▲ is given again
    the same id ──────┴──────────────┘

A caller whose connection broke does not know whether its request ran. It sends the request again
under the same id, and nothing is computed twice. The answer is generated, admitted and charged
once, for the first of the calls. When no call waits any more it is cancelled, like that of any
other request.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NewType, TypeAlias

from cachetools import TTLCache

from guided.errors import DeadlineExceededError, IncompleteAnswerError, RequestError
from guided.spec import FinishReason
from guided.v1 import generation_pb2 as pb
from guided_service.admission import OverloadedError
from guided_service.door import Caller
from guided_service.request_record import note_repeat

__all__ = ["Digest", "Key", "Repeats", "digest_of", "key_of"]

Key = NewType("Key", bytes)
"""A hash of a caller, its id for the request, and the salt: names of callers are not kept."""

Digest = NewType("Digest", bytes)
"""A digest of a whole request."""

Answering: TypeAlias = Callable[[], Coroutine[Any, Any, pb.GenerateResponse]]

_KEPT_SECONDS = 120.0
_KEPT_BYTES = 16 * 2**20
_LEAST_BYTES = 1024
"""Bytes counted for each answer in addition to its own size, for what is kept around it."""

_MOST_CALLERS = 3
"""How many callers may wait for one answer: a client whose connection broke twice. They take no
place in the queue, so more are refused."""


_BY_DEADLINE: Final = (FinishReason.DEADLINE, FinishReason.DEADLINE_CLOSED)
_CUT_SHORT: Final = frozenset(
    (pb.FINISH_REASON_DEADLINE, pb.FINISH_REASON_DEADLINE_CLOSED),
)


@dataclass(slots=True)
class _UnderWay:
    digest: Digest
    answer: asyncio.Task[pb.GenerateResponse]
    waiting: int = 0
    """Callers that wait for it."""

    def check_may_join(self, digest: Digest) -> None:
        """Raise unless another caller with the same request may wait for it."""
        _check_same(self.digest, digest)
        if self.waiting == _MOST_CALLERS:
            raise OverloadedError(
                f"{_MOST_CALLERS} calls wait for the answer to this request",
                hint="wait for one of them",
            )


@dataclass(frozen=True, slots=True)
class _Finished:
    digest: Digest
    written: bytes
    """The answer as it is sent, which takes less memory than the message's objects."""


class Repeats:
    """Running and recently finished answers, by the keys of their requests."""

    def __init__(
        self,
        kept_bytes: int = _KEPT_BYTES,
        kept_seconds: float = _KEPT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Finished answers are kept for ``kept_seconds``, at most ``kept_bytes`` of them."""
        self._under_way: dict[Key, _UnderWay] = {}
        self._finished: TTLCache[Key, _Finished] = TTLCache(
            kept_bytes, kept_seconds, clock, getsizeof=_size
        )
        self._kept_seconds = kept_seconds
        self._forgetting: asyncio.TimerHandle | None = None
        """The next call of ``_forget``, while there is something to forget."""

    async def answer(self, key: Key, digest: Digest, make: Answering) -> pb.GenerateResponse:
        """Return the answer of the request with this key, generating it if needed.

        Raises ``RequestError`` if another request has this key, and ``OverloadedError`` if too many
        callers wait for it. The deadline is that of the first caller; whoever joined and may have
        more time has it generated again.
        """
        while True:
            finished = self._finished.get(key)
            if finished is not None:
                _check_same(finished.digest, digest)
                note_repeat()
                return pb.GenerateResponse.FromString(finished.written)
            under_way = self._under_way.get(key)
            if under_way is None:
                return await self._wait(key, self._begin(key, digest, make))
            under_way.check_may_join(digest)
            note_repeat()
            try:
                response = await self._wait(key, under_way)
            except DeadlineExceededError:
                continue
            except IncompleteAnswerError as error:
                if error.finish_reason not in _BY_DEADLINE:
                    raise
                continue
            if not _was_cut_short(response):
                return response

    async def _wait(self, key: Key, under_way: _UnderWay) -> pb.GenerateResponse:
        """Wait for an answer, which is given up once nobody waits for it."""
        under_way.waiting += 1
        try:
            return await asyncio.shield(under_way.answer)
        finally:
            under_way.waiting -= 1
            if not under_way.waiting and not under_way.answer.done():
                # No caller may join a cancelled answer.
                self._under_way.pop(key, None)
                under_way.answer.cancel()

    def _begin(self, key: Key, digest: Digest, make: Answering) -> _UnderWay:
        begun = _UnderWay(digest, asyncio.create_task(make()))
        self._under_way[key] = begun
        begun.answer.add_done_callback(partial(self._finish, key, begun))
        return begun

    def _finish(self, key: Key, ended: _UnderWay, answer: asyncio.Task[Any]) -> None:
        if self._under_way.get(key) is ended:
            del self._under_way[key]
        # Errors are not kept: a retry may succeed.
        if answer.cancelled() or answer.exception() is not None:
            return
        response = answer.result()
        if _was_cut_short(response):
            return
        if _LEAST_BYTES + response.ByteSize() <= self._finished.maxsize:
            self._finished[key] = _Finished(ended.digest, response.SerializeToString())
            if self._forgetting is None:
                self._forget_later()

    def _forget_later(self) -> None:
        """Have old answers forgotten even if no other comes."""
        loop = asyncio.get_running_loop()
        self._forgetting = loop.call_later(self._kept_seconds, self._forget)

    def _forget(self) -> None:
        self._forgetting = None
        self._finished.expire()
        if self._finished:
            self._forget_later()


def key_of(message: pb.GenerateRequest, caller: Caller) -> Key:
    """Return the key of a request that has an id."""
    told = (caller.identity, message.request_id, message.cache_salt)
    # Python's repr of two different tuples is never the same.
    return Key(hashlib.sha256(repr(told).encode()).digest())


def digest_of(message: pb.GenerateRequest) -> Digest:
    """Return the digest that distinguishes a request from others."""
    written = message.SerializeToString(deterministic=True)
    return Digest(hashlib.sha256(written).digest())


def _check_same(kept: Digest, digest: Digest) -> None:
    if kept != digest:
        raise RequestError(
            "another request has this request_id",
            field="request_id",
            hint="give each request an id of its own, such as a UUID",
        )


def _was_cut_short(response: pb.GenerateResponse) -> bool:
    """Return whether a deadline cut the answer short, or one of several."""
    told = (response.finish_reason, *(each.finish_reason for each in response.candidates))
    return not _CUT_SHORT.isdisjoint(told)


def _size(finished: _Finished) -> int:
    return _LEAST_BYTES + len(finished.written)
