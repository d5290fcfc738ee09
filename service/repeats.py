"""Requests that come again under the same name, which share one answer.

::

    id unknown ──▶ under way ──▶ finished, for two minutes ──▶ forgotten
                      ▲ joins        ▲ is given again
    the same id ──────┴──────────────┘

A caller whose connection broke does not know whether its request was run. It asks again under the
same id, and nothing is computed twice. The answer is made, admitted and charged once, for the first
of the calls. When nobody waits any more it is given up, as that of any other request.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, NewType, TypeAlias

from cachetools import TTLCache

from guided.errors import RequestError
from guided.v1 import generation_pb2 as pb
from guided_service.admission import OverloadedError
from guided_service.door import Caller
from guided_service.request_record import note_repeat

__all__ = ["Digest", "Key", "Repeats", "digest_of", "key_of"]

Key = NewType("Key", bytes)
"""A caller, the id that it gave and the salt, hashed: names of callers are not kept."""

Digest = NewType("Digest", bytes)
"""Of a whole request."""

Answering: TypeAlias = Callable[[], Coroutine[Any, Any, pb.GenerateResponse]]

_KEPT_SECONDS = 120.0
_KEPT_BYTES = 16 * 2**20
_LEAST_BYTES = 1024
"""Counted for each answer besides its own size, for what is kept around it."""

_MOST_CALLERS = 3
"""Who may wait for one answer: a client whose connection broke twice. They take no place in the
queue, so there must not be more."""


@dataclass(slots=True)
class _UnderWay:
    digest: Digest
    answer: asyncio.Task[pb.GenerateResponse]
    waiting: int = 0
    """Callers who wait for it."""

    def check_may_join(self, digest: Digest) -> None:
        """Raise unless one more may wait for it, who asks for the same."""
        _check_same(self.digest, digest)
        if self.waiting == _MOST_CALLERS:
            raise OverloadedError(
                f"{_MOST_CALLERS} calls wait for the answer to this request", hint="wait for theirs"
            )


@dataclass(frozen=True, slots=True)
class _Finished:
    digest: Digest
    response: pb.GenerateResponse


class Repeats:
    """Answers by the ids of their requests: those under way, and those lately finished."""

    def __init__(
        self,
        kept_bytes: int = _KEPT_BYTES,
        kept_seconds: float = _KEPT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Finished answers are kept for so many seconds, of all of them so many bytes."""
        self._under_way: dict[Key, _UnderWay] = {}
        self._finished: TTLCache[Key, _Finished] = TTLCache(
            kept_bytes, kept_seconds, clock, getsizeof=_size
        )

    async def answer(self, key: Key, digest: Digest, make: Answering) -> pb.GenerateResponse:
        """The answer of the request that has this key, made if it is not there yet.

        Raises ``RequestError`` where another request has it, and ``OverloadedError`` where too many
        wait for it.
        """
        finished = self._finished.get(key)
        if finished is not None:
            _check_same(finished.digest, digest)
            note_repeat()
            return finished.response
        under_way = self._under_way.get(key)
        if under_way is None:
            under_way = self._begin(key, digest, make)
        else:
            under_way.check_may_join(digest)
            note_repeat()
        under_way.waiting += 1
        try:
            return await asyncio.shield(under_way.answer)
        finally:
            under_way.waiting -= 1
            if not under_way.waiting and not under_way.answer.done():
                # Nobody may join what is being given up.
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
        # Errors are not kept: who asks again may have more luck.
        if answer.cancelled() or answer.exception() is not None:
            return
        finished = _Finished(ended.digest, answer.result())
        if _size(finished) <= self._finished.maxsize:
            self._finished[key] = finished


def key_of(message: pb.GenerateRequest, caller: Caller) -> Key:
    """The caller, the id and the salt of a request that has an id."""
    told = (caller.identity, message.request_id, message.cache_salt)
    # As Python writes them, no two of these are written alike.
    return Key(hashlib.sha256(repr(told).encode()).digest())


def digest_of(message: pb.GenerateRequest) -> Digest:
    """What tells a request from others."""
    written = message.SerializeToString(deterministic=True)
    return Digest(hashlib.sha256(written).digest())


def _check_same(kept: Digest, digest: Digest) -> None:
    if kept != digest:
        raise RequestError(
            "another request has this request_id",
            field="request_id",
            hint="give each request an id of its own, such as a UUID",
        )


def _size(finished: _Finished) -> int:
    return _LEAST_BYTES + finished.response.ByteSize()
