"""A cache of compiled constraints, bounded in bytes, and of refusals."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from cachetools import LRUCache

from guided.error_record import ErrorRecord, rebuild_error, record_error
from guided.errors import ConstraintError, LimitExceededError
from guided.masks.compiled import CompiledConstraint
from guided.runtime.work_budget import take_lock

__all__ = ["CompiledCache"]

_MAX_REFUSAL_BYTES: Final = 2**20
"""The most bytes of error messages of cached refusals."""
_MEASURED_PER_PUT: Final = 8
"""The number of constraints measured again whenever one is added. Measuring one takes about a
hundredth of the time of compiling a small schema.
"""


class CompiledCache:
    """The constraints compiled and refused last; safe to use from several threads.

    Compiled constraints grow while they are used, so whenever one is added, a few of the others are
    measured again, in turn. A constraint that was evicted lives on while an answer uses it.
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._compiled: OrderedDict[str, CompiledConstraint] = OrderedDict()
        """The least recently used constraint is first."""
        self._sizes: dict[str, int] = {}
        """Bytes of each constraint when last measured; the one measured longest ago is first. It
        has the same keys as ``_compiled``."""
        self._refusals: LRUCache[str, ErrorRecord] = LRUCache(_MAX_REFUSAL_BYTES, _size_of)
        """Records, not errors: each time a refusal is raised, a new error is made from its record.
        """
        self._in_progress: dict[str, _KeyLock] = {}
        """Locks of constraints that are being compiled or waited for."""
        self._lock = threading.Lock()
        """Held while any of these changes, and never while something is compiled."""

    def __len__(self) -> int:
        return len(self._compiled)

    @property
    def nbytes(self) -> int:
        """The bytes of all constraints when they were last measured."""
        with self._lock:
            return sum(self._sizes.values())

    @property
    def num_refusals(self) -> int:
        """The number of refusals."""
        return len(self._refusals)

    def get(self, key: str) -> CompiledConstraint | None:
        """Return the constraint if it was compiled before, and mark it as the one used last.

        Raises the error again if it was refused. Returns ``None`` if it is unknown.
        """
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is not None:
                self._compiled.move_to_end(key)
                return compiled
            refusal = self._refusals.get(key)
        if refusal is not None:
            raise rebuild_error(refusal)
        return None

    def put(self, key: str, compiled: CompiledConstraint) -> None:
        """Add a compiled constraint, and evict the least recently used ones as far as needed.

        It replaces the constraint of the same key. It is itself kept, however large it is. The
        sizes of the others may be outdated, so the bound holds only roughly. Answers in progress
        are not affected by eviction: matchers refer to their constraint.
        """
        evicted: list[CompiledConstraint] = []  # freed after the lock, as that takes a while
        with self._lock:
            self._compiled[key] = compiled
            self._compiled.move_to_end(key)
            for measured in [key, *islice(self._sizes, _MEASURED_PER_PUT)]:
                self._sizes.pop(measured, None)
                self._sizes[measured] = self._compiled[measured].nbytes
            nbytes = sum(self._sizes.values())
            while len(self._compiled) > self._max_count or (
                nbytes > self._max_bytes and len(self._compiled) > 1
            ):
                oldest, dropped = self._compiled.popitem(last=False)
                evicted.append(dropped)
                nbytes -= self._sizes.pop(oldest)

    def put_refusal(self, key: str, error: ConstraintError | LimitExceededError) -> None:
        """Add a refusal, unless its message exceeds the bound."""
        record = record_error(error)
        with self._lock:
            if _size_of(record) <= _MAX_REFUSAL_BYTES:
                self._refusals[key] = record

    @contextmanager
    def compiling(self, key: str) -> Iterator[None]:
        """Return a context in which a constraint is compiled by one thread at a time.

        Other threads that want the same constraint wait, and should call ``get`` first when they
        enter. The last thread to leave drops the lock of the key. ``_lock`` is never held while
        waiting for it.
        """
        with self._lock:
            key_lock = self._in_progress.setdefault(key, _KeyLock())
            key_lock.users += 1
        try:
            take_lock(key_lock.lock)
            try:
                yield
            finally:
                key_lock.lock.release()
        finally:
            with self._lock:
                key_lock.users -= 1
                if not key_lock.users:
                    del self._in_progress[key]


class _KeyLock:
    """The lock of a key; ``users`` counts the threads that hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0


def _size_of(record: ErrorRecord) -> int:
    return 200 + len(record.message) + sum(len(value) for value in record.fields.values())
