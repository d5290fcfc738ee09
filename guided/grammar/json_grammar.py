"""The intermediate form of JSON constraints: formulas for the places of a schema."""

from __future__ import annotations

from dataclasses import dataclass

from guided.grammar.formula import Formula, Formulas

__all__ = ["JsonGrammar"]


@dataclass(frozen=True, slots=True, eq=False)
class JsonGrammar:
    """All places of a constraint, whose formulas refer to one another by number.

    A place refers to itself only through the members of objects and the items of arrays.
    """

    formulas: Formulas
    """Made the formulas of all places, and makes those that follow from them."""
    places: tuple[Formula, ...]
    pointers: tuple[str, ...]
    """Where in the schema each place was written, as JSON pointers."""
    root: Formula
