"""The intermediate form of JSON constraints: formulas, and the schema objects they refer to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guided.json_schema.formulas.assertions import formulas_in
from guided.json_schema.formulas.formula import Formula, Formulas, Leaf, SchemaNode, parts_of

__all__ = ["JsonGrammar"]


@dataclass(frozen=True, slots=True, eq=False)
class JsonGrammar:
    """What a document has to fit.

    A schema node leads to itself only through the members of objects and the items of arrays.
    """

    formulas: Formulas
    """What made the formulas of all nodes, and makes those that follow from them."""
    root: Formula
    source: Callable[[], int]
    """About how many bytes the schema takes: all of it is kept, as nodes are lowered when needed.
    """

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return self.formulas.nbytes + self.source()

    def nodes(self) -> list[SchemaNode]:
        """Return all nodes that the root leads to, by number; this lowers every one of them."""
        found: set[SchemaNode] = set()
        seen: set[Formula] = set()
        waiting = [self.root]
        while waiting:
            formula = waiting.pop()
            if formula in seen:
                continue
            seen.add(formula)
            if isinstance(formula, SchemaNode):
                found.add(formula)
                waiting.append(formula.formula)
            elif isinstance(formula, Leaf):
                waiting += formulas_in(formula.assertion)
            else:
                waiting += parts_of(formula)
        return sorted(found, key=lambda node: node.number)
