"""Stores constraints that requests may name: by salt, as they were sent, within one bound for all.

::

    salt ── constraint id ── Kept       each salt in the order of last use

When there is no room, the salt that takes most loses its least recently used constraint. So a salt
that stores a lot evicts its own, and leaves those that store little alone.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial

from guided.errors import LimitExceededError, UnknownConstraintError
from guided.spec import (
    CheckedConstraint,
    CompileCost,
    GenerationRequest,
    GrammarInfo,
    Stored,
    Structure,
)
from guided.v1 import generation_pb2 as pb
from guided.wire_request import decode_constraint
from guided_service.intake import Readers

__all__ = ["ConstraintStore"]

_ENTRY_BYTES = 512
"""What a constraint takes in addition to its message and its salt."""


@dataclass(slots=True)
class _Kept:
    message: bytes
    """A serialized ``guided.v1.Constraint``: unlike the decoded object's, its size is known."""
    nbytes: int
    cost: CompileCost
    uses: int = 0


class ConstraintStore:
    """Keeps at most a number of constraints, and of bytes."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._salts: dict[str, OrderedDict[str, _Kept]] = {}
        self._sizes: dict[str, int] = {}
        """Bytes of each salt."""

    @property
    def nbytes(self) -> int:
        """The bytes that all constraints take."""
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return sum(map(len, self._salts.values()))

    def put(self, salt: str, message: bytes, found: CheckedConstraint) -> GrammarInfo:
        """Keep a checked constraint by its ``message``, evicting others if needed.

        Raises LimitExceededError if it is too large even alone.
        """
        constraint_id = found.constraint_id
        nbytes = len(message) + len(salt.encode()) + _ENTRY_BYTES
        if nbytes > self._most_bytes:
            raise LimitExceededError(
                f"the constraint takes {nbytes} bytes, and {self._most_bytes} may be stored",
                limit=self._most_bytes,
                field="constraint",
                hint="send it with each request",
            )
        known = self._kept(salt, constraint_id)
        if known is not None:
            self._remove(salt, constraint_id)
        while len(self) >= self._most or self.nbytes + nbytes > self._most_bytes:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self._remove(largest, next(iter(self._salts[largest])))
        kept = _Kept(message, nbytes, found.cost, uses=0 if known is None else known.uses)
        self._salts.setdefault(salt, OrderedDict())[constraint_id] = kept
        self._sizes[salt] = self._sizes.get(salt, 0) + nbytes
        return replace(_info(constraint_id, kept), report=found.report)

    def message(self, salt: str, constraint_id: str) -> bytes:
        """Return a constraint's message and count a use; raises UnknownConstraintError."""
        kept = self._find(salt, constraint_id)
        kept.uses += 1
        self._salts[salt].move_to_end(constraint_id)
        return kept.message

    async def resolved(
        self, request: GenerationRequest, readers: Readers
    ) -> tuple[GenerationRequest, int]:
        """Return the request with the constraint it names, if any, and the bytes of its message.

        They count like those of the request's own message: a short request may name a large
        constraint.
        """
        if not isinstance(request.constraint, Stored):
            return request, 0
        message = self.message(request.cache_salt, request.constraint.constraint_id)
        constraint = await readers.do(partial(_read, message), len(message))
        return replace(request, constraint=constraint), len(message)

    def listed(self, salt: str) -> list[GrammarInfo]:
        """Return the constraints of a salt, the least recently used first."""
        return [_info(name, kept) for name, kept in self._salts.get(salt, {}).items()]

    def delete(self, salt: str, constraint_id: str) -> None:
        """Forget a constraint; raises UnknownConstraintError."""
        self._find(salt, constraint_id)
        self._remove(salt, constraint_id)

    def _find(self, salt: str, constraint_id: str) -> _Kept:
        kept = self._kept(salt, constraint_id)
        if kept is None:
            raise UnknownConstraintError(
                f"there is no stored constraint {constraint_id!r} for this cache_salt",
                field="constraint",
                hint="compile it again; the server forgets those that are not used, and all when "
                "it ends",
            )
        return kept

    def _kept(self, salt: str, constraint_id: str) -> _Kept | None:
        return self._salts[salt].get(constraint_id) if salt in self._salts else None

    def _remove(self, salt: str, constraint_id: str) -> None:
        kept = self._salts[salt].pop(constraint_id)
        self._sizes[salt] -= kept.nbytes
        if not self._salts[salt]:
            del self._salts[salt], self._sizes[salt]


def _info(constraint_id: str, kept: _Kept) -> GrammarInfo:
    return GrammarInfo(constraint_id, kept.nbytes, kept.cost, kept.uses)


def _read(message: bytes) -> Structure:
    return decode_constraint(pb.Constraint.FromString(message))
