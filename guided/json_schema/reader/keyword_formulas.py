"""The keywords of one schema object → one formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from guided.json_schema.formulas.formula import Formula
from guided.json_schema.reader.applicators import APPLICATOR_FORMULAS
from guided.json_schema.reader.arrays import ARRAY_FORMULAS
from guided.json_schema.reader.listed import LISTED_FORMULAS
from guided.json_schema.reader.objects import OBJECT_FORMULAS
from guided.json_schema.reader.scalars import SCALAR_FORMULAS
from guided.json_schema.reader.unevaluated import UNEVALUATED_FORMULAS
from guided.json_schema.reader.visit import Visit

__all__ = ["keyword_formulas"]


def keyword_formulas(visit: Visit) -> Formula:
    """What all keywords say together, in the order in which they are written.

    What only asks for members comes last: members are written in the order in which a formula first
    names them, and ``properties`` is where their order is told.
    """
    written = [keyword for keyword in visit.keywords if keyword in _FORMULAS]
    written.sort(key=lambda keyword: keyword in _LAST)
    return visit.formulas.all_of(_one_by_one(visit, written))


def _one_by_one(visit: Visit, keywords: list[str]) -> Iterator[Formula]:
    """Made as they are asked for: nothing behind FALSE is looked at."""
    for function in dict.fromkeys(_FORMULAS[keyword] for keyword in keywords):
        yield function(visit)


_FORMULAS: Final[dict[str, Callable[[Visit], Formula]]] = {
    **APPLICATOR_FORMULAS,
    **LISTED_FORMULAS,
    **SCALAR_FORMULAS,
    **ARRAY_FORMULAS,
    **OBJECT_FORMULAS,
    **UNEVALUATED_FORMULAS,
}
_LAST: Final = frozenset({"required", "dependentRequired"})
