"""What every constraint on an answer has, and how deep they may nest."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from guided.errors import LimitExceededError

__all__ = ["MAX_NESTING", "MAX_PARTS", "Constraint", "Structure", "check_nesting", "digest_of"]

MAX_NESTING = 30
"""How deep constraints may stand inside of one another; protobuf reads messages 100 deep."""

MAX_PARTS = 20_000
"""Constraints that one is made of, on all levels together."""


class Structure:
    """What an answer must look like: a schema, a grammar, a pattern or a list of texts."""

    __slots__ = ()

    def digest(self) -> str:
        """Key under which the compiled form is cached."""
        return self.digest_over([part.digest() for part in self.inner()])

    def digest_over(self, inner: list[str]) -> str:  # noqa: ARG002 - made of others, or not
        """``digest`` by those of ``inner()``, for who rests between them."""
        return self.digest()

    def inner(self) -> tuple[Structure, ...]:
        """The constraints that this one is made of."""
        return ()


Constraint: TypeAlias = Structure | None
"""What an answer must look like; ``None`` allows every text."""


def check_nesting(constraint: Structure) -> None:
    """Raise LimitExceededError for what nests deeper than MAX_NESTING, or has very many parts."""
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
    """A key of a constraint: its kind and what it says, a long text apart."""
    # ``repr`` of a long text takes longer than its hash.
    held = text.encode(errors="surrogatepass")
    digest = hashlib.sha256(f"{len(held)} {parts!r}".encode(errors="surrogatepass"))
    digest.update(held)
    return f"{kind}:{digest.hexdigest()}"
