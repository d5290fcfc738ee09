"""The intermediate form of JSON constraints: formulas for the schema objects of a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from guided.json_schema.formulas.formula import Formula, Formulas

__all__ = ["JsonGrammar"]


@dataclass(frozen=True, slots=True, eq=False)
class JsonGrammar:
    """All places of a constraint, whose formulas refer to one another by number.

    A place refers to itself only through the members of objects and the items of arrays.
    """

    formulas: Formulas
    """Made the formulas of all places, and makes those that follow from them."""
    places: Sequence[Formula]
    """By number; one may be made, and further ones met, when it is first asked for."""
    root: Formula
    pointer: Callable[[int], str] = lambda _: ""
    """Where in the schema the place of a number was written, as a JSON pointer."""
