"""What a compiler keeps: compiled constraints, bounded in bytes, and refusals of others."""

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
from guided.runtime.fuel import take_lock

__all__ = ["CompiledCache"]

_MAX_REFUSAL_BYTES: Final = 2**20
"""How many bytes of messages the refusals that are kept may have."""
_MEASURED: Final = 8
"""How many constraints are measured again whenever one is added. Measuring one takes about a
hundredth of the time of compiling a small schema."""


class CompiledCache:
    """The constraints compiled last, and those refused last; safe to use from several threads.

    Machines grow while they are used, so whenever a constraint is added, a few of the others are
    measured again, in turn. A constraint that was dropped lives on while an answer uses it.
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._compiled: OrderedDict[str, CompiledConstraint] = OrderedDict()
        """The least recently used constraint is first."""
        self._sizes: OrderedDict[str, int] = OrderedDict()
        """Bytes of each constraint when last measured; the one measured longest ago is first. It
        has the same keys as ``_compiled``."""
        self._refused: LRUCache[str, ErrorRecord] = LRUCache(_MAX_REFUSAL_BYTES, _size_of)
        """Records, not errors: each time a refusal is raised, a new error is made from its record.
        """
        self._making: dict[str, _Making] = {}
        """The constraints that are being compiled or waited for."""
        self._lock = threading.Lock()
        """Held while any of these changes, and never while something is compiled."""

    def __len__(self) -> int:
        return len(self._compiled)

    @property
    def nbytes(self) -> int:
        """About how many bytes the compiled constraints take now."""
        with self._lock:
            return sum([compiled.nbytes for compiled in self._compiled.values()])

    def get(self, key: str) -> CompiledConstraint | None:
        """Return the constraint if it was compiled before, and mark it as the one used last.

        Raises the error again if it was refused. Returns ``None`` if it is unknown.
        """
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is not None:
                self._compiled.move_to_end(key)
                return compiled
            refusal = self._refused.get(key)
        if refusal is not None:
            raise rebuild_error(refusal)
        return None

    def put(self, key: str, compiled: CompiledConstraint) -> None:
        """Keep a compiled constraint, and drop the least recently used ones as far as needed.

        It replaces the constraint of the same key, if there is one. It is itself kept, however
        large it is.

        The sizes of the others may be outdated, so the bound holds only roughly. Dropping a
        constraint ends no answer: matchers refer to theirs.
        """
        with self._lock:
            self._compiled[key] = compiled
            self._compiled.move_to_end(key)
            self._measure(key)
            for other in list(islice(self._sizes, _MEASURED)):
                self._measure(other)
            held = sum(self._sizes.values())
            while len(self._compiled) > self._max_count or (
                held > self._max_bytes and len(self._compiled) > 1
            ):
                oldest, _ = self._compiled.popitem(last=False)
                held -= self._sizes.pop(oldest)

    def _measure(self, key: str) -> None:
        """Measure a constraint that is kept; the caller must hold ``_lock``."""
        self._sizes[key] = self._compiled[key].nbytes
        self._sizes.move_to_end(key)

    def refuse(self, key: str, error: ConstraintError | LimitExceededError) -> None:
        """Remember that a constraint cannot be enforced, unless the message exceeds the bound."""
        record = record_error(error)
        with self._lock:
            if _size_of(record) <= _MAX_REFUSAL_BYTES:
                self._refused[key] = record

    @contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Compile in the block; other threads that want the same constraint wait until it is left.

        A thread that has waited should therefore call ``get`` first. The last thread to leave drops
        the lock of the key.

        Only one lock is held at a time: ``_lock`` is never held while waiting for the lock of a
        key.
        """
        with self._lock:
            making = self._making.setdefault(key, _Making())
            making.users += 1
        try:
            take_lock(making.lock)
            try:
                yield
            finally:
                making.lock.release()
        finally:
            with self._lock:
                making.users -= 1
                if not making.users:
                    del self._making[key]


class _Making:
    """A constraint that is being compiled; ``users`` counts the threads in ``making`` for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0


def _size_of(record: ErrorRecord) -> int:
    return 200 + len(record.message) + sum(len(value) for value in record.fields.values())
