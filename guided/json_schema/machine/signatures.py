"""What is equal for formulas of different grammars that say the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from guided.json_schema.formulas.formula import (
    Constant,
    Formula,
    Leaf,
    SchemaNode,
    inside_first,
    parts_of,
)

__all__ = ["Signatures"]


class Signature:
    """What a formula says by itself, and the signatures of its parts; hashed once."""

    __slots__ = ("_hash", "parts", "said")

    def __init__(self, said: Hashable, parts: tuple[Signature, ...]) -> None:
        self.said: Final = said
        self.parts = parts
        self._hash: Final[int] = hash((said, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Signature):
            return False
        # Parts are shared, so that their number grows with the paths to them: compare each once.
        compared: set[tuple[int, int]] = set()
        waiting: list[tuple[Signature, Signature]] = [(self, other)]
        while waiting:
            one, two = waiting.pop()
            pair = (id(one), id(two))
            if one is two or pair in compared:
                continue
            if one._hash != two._hash or one.said != two.said or len(one.parts) != len(two.parts):
                return False
            compared.add(pair)
            if one.parts is not two.parts:
                waiting += zip(one.parts, two.parts, strict=True)
        other.parts = self.parts
        return True


class Signatures:
    """The signatures of the formulas of one grammar."""

    def __init__(self) -> None:
        self._known: dict[Formula, Signature] = {}

    def of(self, formula: Formula) -> Signature:
        """The signature of a formula without places."""
        found = self._known.get(formula)
        if found is None:
            for node in inside_first(formula, self._known):
                parts = tuple([self._known[part] for part in parts_of(node)])
                self._known[node] = Signature(_said(node), parts)
            found = self._known[formula]
        return found


def _said(formula: Formula) -> Hashable:
    assert not isinstance(formula, SchemaNode), formula
    if isinstance(formula, Constant):
        return formula.value
    return formula.assertion if isinstance(formula, Leaf) else type(formula).__name__
