"""Schemas that a schema applies to the same value, as formulas.

Branches of ``oneOf`` that clearly exclude each other need no negation, and negations make a formula
expensive. Most schemas distinguish their branches by type, or by a member that says which one is
meant: ``overlapping`` looks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Final

from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.formulas.values import Json, is_number
from guided.json_schema.reader.keywords import TYPES
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
    """Return a branch, and none of those that could hold beside it.

    Negations are left out where ``overlapping`` is sure, which changes no meaning: they only make
    formulas larger.
    """
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
    """``if`` with ``then`` and ``else``, which mean nothing without it.

    TRUE if neither ``then`` nor ``else`` asks for anything: then no negation is made.
    """
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
_Scalar = tuple[str, Json]
"""The type of a scalar and the scalar, since 1 and true are equal in Python."""
_ALL: Final = frozenset(TYPES) - {"integer"}
_MAX_REFERENCES: Final = 10
"""References that are followed from a branch; beyond them it counts as allowing everything."""


def overlapping(branches: Sequence[Visit | bool]) -> list[list[int]]:
    """Return for every branch, by index, the others that may hold of the same value.

    Others that never do may be included, since only outlines are compared.
    """
    spend(len(branches) ** 2 // 3)
    outlines = [_outline(branch) for branch in branches]
    others: list[list[int]] = [[] for _ in branches]
    for (left, ours), (right, theirs) in combinations(enumerate(outlines), 2):
        if not _exclude(ours, theirs):
            others[left].append(right)
            others[right].append(left)
    return others


@dataclass(slots=True)
class _Outline:
    """A superset of the values of a schema.

    Leaving out a keyword is always right; including what a schema does not ask would lose values,
    since ``oneOf`` would no longer negate a branch that can hold.
    """

    types: frozenset[str] = _ALL
    scalars: frozenset[_Scalar] | None = None
    """The only scalars, where they are listed."""
    members: dict[str, frozenset[_Scalar]] = field(default_factory=dict)
    """The values that members may have, where only scalars are listed."""
    required: frozenset[str] = frozenset()


def _exclude(left: _Outline, right: _Outline) -> bool:
    """Return whether certainly no value lies in both: types, scalars or a member distinguish them.

    False if that is not obvious; then negation distinguishes the branches. A member
    distinguishes objects only if one of the two requires it: otherwise an object without it may lie
    in both.
    """
    common = left.types & right.types
    if not common:
        return True
    if not common & {"array", "object"}:
        return (
            left.scalars is not None
            and right.scalars is not None
            and not left.scalars & right.scalars
        )
    return common == {"object"} and any(
        name in right.members
        and (name in left.required or name in right.required)
        and not values & right.members[name]
        for name, values in left.members.items()
    )


def _outline(branch: Visit | bool) -> _Outline:
    """Return what is easily seen of the values that may fit a branch, without making its formula.

    Keywords that it does not look at allow more, never less.
    """
    branch = _resolved(branch)
    if isinstance(branch, bool):
        return _Outline(_ALL if branch else frozenset())
    keywords = branch.keywords
    outline = _Outline(_types(keywords), required=frozenset(keywords.get("required", ())))
    values = _listed(branch)
    if values is not None:
        outline.types &= {_type(value) for value in values}
        outline.scalars = _scalars(values)
    for name, schema in keywords.get("properties", {}).items():
        listed = _listed(_resolved(branch.inner(schema)))
        if listed is not None and not any(isinstance(value, dict | list) for value in listed):
            outline.members[name] = _scalars(listed)
    return outline


def _resolved(visit: Visit | bool) -> Visit | bool:
    """Return what a schema that is only a reference refers to.

    ``True`` after ``_MAX_REFERENCES`` references, which may lead in a circle: it counts as allowing
    everything.
    """
    for _ in range(_MAX_REFERENCES):
        if isinstance(visit, bool) or visit.keywords.keys() != {"$ref"}:
            return visit
        visit = visit.target("$ref")
    return True


def _listed(visit: Visit | bool) -> list[Json] | None:
    """Return the only values of a schema, if it lists them; only ``const`` where it has both.

    The list is the schema's own: it is not to be changed.
    """
    if isinstance(visit, bool):
        return None
    if "const" in visit.keywords:
        return [visit.keywords["const"]]
    values: list[Json] | None = visit.keywords.get("enum")
    return values


def _types(keywords: dict[str, Json]) -> frozenset[str]:
    """Return the types that ``type`` allows, where integers are numbers; all types without it."""
    names = keywords.get("type")
    if names is None:
        return _ALL
    return frozenset(
        "number" if name == "integer" else name
        for name in ([names] if isinstance(names, str) else names)
    )


def _scalars(values: list[Json]) -> frozenset[_Scalar]:
    """Return the scalars among values; equal numbers are one, however they are written."""
    return frozenset(
        (_type(value), Decimal(value) if is_number(value) else value)
        for value in values
        if not isinstance(value, dict | list)
    )


def _type(value: Json) -> str:
    if is_number(value):
        return "number"
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES: Final = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    list: "array",
    dict: "object",
}
