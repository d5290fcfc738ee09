"""Requests that come again under the same name, which share one answer.

::

    id unknown ──▶ under way ──▶ finished, for two minutes ──▶ forgotten
                      ▲ joins        ▲ is given again
    the same id ──────┴──────────────┘

A caller whose connection broke does not know whether its request was run. It asks again under the
same id, and nothing is computed twice. When nobody waits any more the answer is given up, as that
of any other request.
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
from guided_service.status import Context

__all__ = ["Digest", "Key", "Repeats", "digest_of", "key_of"]

Key = NewType("Key", bytes)
"""A caller and the id that it gave, hashed: names of callers are not kept."""

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

_AUTHORIZATION = "authorization"


@dataclass(slots=True)
class _UnderWay:
    digest: Digest
    answer: asyncio.Task[pb.GenerateResponse]
    waiting: int = 0
    """Callers who wait for it."""


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
            return finished.response
        under_way = self._under_way.get(key)
        if under_way is None:
            under_way = self._begin(key, digest, make)
        _check_same(under_way.digest, digest)
        if under_way.waiting == _MOST_CALLERS:
            raise OverloadedError(
                f"{_MOST_CALLERS} calls wait for the answer to this request", hint="wait for theirs"
            )
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


def key_of(message: pb.GenerateRequest, context: Context) -> Key:
    """The caller and the id of a request that has one.

    A caller is what it authenticates itself with, else the address of its machine.
    """
    metadata = dict(context.invocation_metadata() or ())
    caller = metadata.get(_AUTHORIZATION) or _machine(context.peer())
    named = caller.encode() if isinstance(caller, str) else caller
    # Neither of them has a zero in it.
    return Key(hashlib.sha256(named + b"\0" + message.request_id.encode()).digest())


def digest_of(message: pb.GenerateRequest) -> Digest:
    """What tells a request from others."""
    written = message.SerializeToString(deterministic=True)
    return Digest(hashlib.sha256(written).digest())


def _machine(peer: str) -> str:
    """``ipv4:10.0.0.1:5555`` -> ``ipv4:10.0.0.1``: a new connection has another port."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


def _check_same(kept: Digest, digest: Digest) -> None:
    if kept != digest:
        raise RequestError(
            "another request has this request_id",
            field="request_id",
            hint="give each request an id of its own, such as a UUID",
        )


def _size(finished: _Finished) -> int:
    return _LEAST_BYTES + finished.response.ByteSize()
