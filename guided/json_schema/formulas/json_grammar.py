"""The intermediate form of JSON constraints: formulas, and the schema objects they refer to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from guided.json_schema.formulas.assertions import inner_formulas
from guided.json_schema.formulas.formula import Formula, Formulas, Leaf, SchemaNode, parts_of
from guided.runtime.at_drop import AtDrop

__all__ = ["JsonGrammar"]


@dataclass(frozen=True, slots=True, eq=False)
class JsonGrammar:
    """The formulas that a document has to fit.

    A schema node reaches itself only through the members of objects and the items of arrays.
    """

    formulas: Formulas
    """Interns the formulas of all nodes, and those derived from them."""
    root: Formula
    schema_nbytes: Callable[[], int]
    """Returns about how many bytes the schema takes, which is kept to lower nodes when needed."""
    at_drop: AtDrop
    """Releases the nodes, so they may be used only as long as their grammar exists."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return self.formulas.nbytes + self.schema_nbytes()

    def nodes(self) -> list[SchemaNode]:
        """Return all nodes reachable from the root, ascending by index; this lowers every one.

        A node gets its index when the first formula that refers to it is lowered, here or because a
        text reached it. Indices may have gaps, for nodes that simplifying left out: they are no
        places in this list. Raises what lowering raises, and may then be called again.
        """
        found: set[SchemaNode] = set()
        seen: set[Formula] = set()
        worklist = [self.root]
        while worklist:
            formula = worklist.pop()
            if formula in seen:
                continue
            seen.add(formula)
            if isinstance(formula, SchemaNode):
                found.add(formula)
                worklist.append(formula.formula)
            elif isinstance(formula, Leaf):
                worklist += inner_formulas(formula.assertion)
            else:
                worklist += parts_of(formula)
        return sorted(found, key=lambda node: node.index)
