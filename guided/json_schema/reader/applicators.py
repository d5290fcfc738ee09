"""Schemas that a schema applies to the same value, as formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.reader.exclusive import overlapping
from guided.json_schema.reader.visit import REFERENCES, Visit
from guided.runtime.fuel import spend

__all__ = ["APPLICATOR_FORMULAS"]


def _reference(keyword: str) -> Callable[[Visit], Formula]:
    def reference(visit: Visit) -> Formula:
        return visit.formula(visit.target(keyword))

    return reference


def _all_of(visit: Visit) -> Formula:
    return visit.formulas.all_of(map(visit.apply, visit.keywords["allOf"]))


def _any_of(visit: Visit) -> Formula:
    return visit.formulas.any_of(map(visit.apply, visit.keywords["anyOf"]))


def _one_of(visit: Visit) -> Formula:
    """A branch, and none of those that could hold beside it."""
    schemas = visit.keywords["oneOf"]
    branches = [visit.apply(schema) for schema in schemas]
    beside = overlapping([visit.inner(schema) for schema in schemas])
    spend(sum(map(len, beside)))
    return visit.formulas.any_of(
        visit.formulas.all_of(
            [branch, *(visit.formulas.negate(branches[other]) for other in others)]
        )
        for branch, others in zip(branches, beside, strict=True)
    )


def _not(visit: Visit) -> Formula:
    return visit.formulas.negate(visit.apply(visit.keywords["not"]))


def _if(visit: Visit) -> Formula:
    formulas, keywords = visit.formulas, visit.keywords
    condition = visit.apply(keywords["if"])
    then = visit.apply(keywords.get("then", True))
    otherwise = visit.apply(keywords.get("else", True))
    if then is TRUE and otherwise is TRUE:
        return TRUE
    return formulas.any_of(
        [
            formulas.all_of([condition, then]),
            formulas.all_of([formulas.negate(condition), otherwise]),
        ]
    )


APPLICATOR_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {
    **{keyword: _reference(keyword) for keyword in REFERENCES},
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
