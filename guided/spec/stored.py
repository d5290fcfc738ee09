"""Constraints that a server keeps for requests to name."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import LimitExceededError
from guided.spec.report import CompileCost, SchemaReport
from guided.spec.structure import Structure, digest_of

__all__ = ["MAX_SALT_BYTES", "GrammarInfo", "Stored", "check_salt"]

MAX_SALT_BYTES = 256


@dataclass(frozen=True, slots=True)
class Stored(Structure):
    """The constraint that the server keeps under an id, as returned by ``client.grammars.compile``.

    It stands for a whole constraint, not for a part of one.
    """

    constraint_id: str

    def digest(self) -> str:
        return digest_of("stored", self.constraint_id)


@dataclass(frozen=True, slots=True)
class GrammarInfo:
    """A constraint that a server keeps."""

    constraint_id: str
    """Its kind and a digest of its content: equal constraints have equal ids."""
    nbytes: int
    """Size of the kept constraint."""
    cost: CompileCost
    uses: int = 0
    """Number of calls that named it."""
    report: SchemaReport | None = None
    """How far the constraint is enforced; only from ``compile``."""

    @property
    def constraint(self) -> Stored:
        """The value to pass as ``grammar`` of a request."""
        return Stored(self.constraint_id)


def check_salt(salt: str) -> None:
    """Raise LimitExceededError for a ``cache_salt`` that is too long."""
    if len(salt.encode(errors="replace")) > MAX_SALT_BYTES:
        raise LimitExceededError(
            f"cache_salt has more than {MAX_SALT_BYTES} bytes",
            limit=MAX_SALT_BYTES,
            field="cache_salt",
            hint="pass a hash of it",
        )
