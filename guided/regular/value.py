"""What expressions are made of: values that many tables are asked for."""

from __future__ import annotations

from typing import Final

__all__ = ["Value"]


class Value:
    """Equal to others of its class with equal ``fields``, which are hashed once, when it is made.

    Not a dataclass, whose methods stay interpreted where all around them is compiled.
    """

    __slots__ = ("_fields", "_hash")

    def __init__(self, fields: tuple[object, ...]) -> None:
        self._fields: Final = fields
        self._hash: Final = hash(fields)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Value)
            and type(self) is type(other)
            and self._hash == other._hash
            and self._fields == other._fields
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._fields!r}"
