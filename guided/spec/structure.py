"""The base of all constraints on an answer, and how deep they may nest."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from guided.errors import LimitExceededError

__all__ = ["MAX_NESTING", "MAX_PARTS", "Constraint", "Structure", "check_nesting", "digest_of"]

MAX_NESTING = 30
"""How deep constraints may be nested; protobuf reads messages 100 deep."""

MAX_PARTS = 20_000
"""Most constraints that one is made of, on all levels together."""


class Structure:
    """A constraint on an answer: a schema, a grammar, a pattern or a list of texts."""

    __slots__ = ()

    def digest(self) -> str:
        """Return the key under which the compiled form is cached."""
        return self.digest_over([part.digest() for part in self.inner()])

    def digest_over(self, inner: list[str]) -> str:  # noqa: ARG002 - only some have parts
        """Return ``digest`` from those of ``inner()``, for callers that pause between them."""
        return self.digest()

    def inner(self) -> tuple[Structure, ...]:
        """Return the constraints that this one is made of."""
        return ()


Constraint: TypeAlias = Structure | None
"""A constraint on an answer; ``None`` allows every text."""


def check_nesting(constraint: Structure) -> None:
    """Raise LimitExceededError for nesting deeper than MAX_NESTING, or too many parts."""
    level, depth, parts = list(constraint.inner()), 1, 0
    while level:
        depth += 1
        parts += len(level)
        if depth > MAX_NESTING:
            raise LimitExceededError(
                f"constraints stand more than {MAX_NESTING} deep inside of one another",
                limit=MAX_NESTING,
                field="constraint",
                hint="write what nests as a grammar",
            )
        if parts > MAX_PARTS:
            raise LimitExceededError(
                f"the constraint has more than {MAX_PARTS} parts",
                limit=MAX_PARTS,
                field="constraint",
                hint="repeat what is the same, and list texts as a Choice",
            )
        level = [inner for part in level for inner in part.inner()]


def digest_of(kind: str, parts: object, text: str = "") -> str:
    """Return a constraint's key from its kind and its parts, with a long text given separately."""
    # ``repr`` of a long text takes longer than its hash.
    encoded = text.encode(errors="surrogatepass")
    digest = hashlib.sha256(f"{len(encoded)} {parts!r}".encode(errors="surrogatepass"))
    digest.update(encoded)
    return f"{kind}:{digest.hexdigest()}"
