"""Formulas of the schemas that a schema applies to the same value.

Branches of ``oneOf`` that clearly exclude each other need no negation, and negations make a formula
expensive. Most schemas distinguish their branches by type, or by a member that serves as
discriminator: ``overlapping_branches`` looks for that.
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
from guided.json_schema.reader.schema_context import REFERENCES, SchemaContext
from guided.runtime.work_budget import spend

__all__ = ["APPLICATOR_FORMULAS"]


def _reference(keyword: str) -> Callable[[SchemaContext], Formula]:
    def reference(context: SchemaContext) -> Formula:
        return context.formula(context.target(keyword))

    return reference


def _all_of(context: SchemaContext) -> Formula:
    return context.formulas.all_of(map(context.apply, context.keywords["allOf"]))


def _any_of(context: SchemaContext) -> Formula:
    return context.formulas.any_of(map(context.apply, context.keywords["anyOf"]))


def _one_of(context: SchemaContext) -> Formula:
    """Return the formula that one branch holds and no other.

    Only branches that may hold of the same value are negated (``overlapping_branches``): other
    negations would make the formula larger without changing its meaning.
    """
    schemas = context.keywords["oneOf"]
    branches = [context.apply(schema) for schema in schemas]
    overlaps = overlapping_branches([context.inner(schema) for schema in schemas])
    spend(sum(map(len, overlaps)))
    return context.formulas.any_of(
        context.formulas.all_of(
            [branch, *(context.formulas.negate(branches[other]) for other in others)]
        )
        for branch, others in zip(branches, overlaps, strict=True)
    )


def _not(context: SchemaContext) -> Formula:
    return context.formulas.negate(context.apply(context.keywords["not"]))


def _if(context: SchemaContext) -> Formula:
    """Return the formula of ``if`` with ``then`` and ``else``, which have no effect without it.

    TRUE if both ``then`` and ``else`` are, so that no negation is made.
    """
    formulas, keywords = context.formulas, context.keywords
    condition = context.apply(keywords["if"])
    then = context.apply(keywords.get("then", True))
    otherwise = context.apply(keywords.get("else", True))
    if then is TRUE and otherwise is TRUE:
        return TRUE
    return formulas.any_of(
        [
            formulas.all_of([condition, then]),
            formulas.all_of([formulas.negate(condition), otherwise]),
        ]
    )


APPLICATOR_FORMULAS: Mapping[str, Callable[[SchemaContext], Formula]] = {
    **{keyword: _reference(keyword) for keyword in REFERENCES},
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
_Scalar = tuple[str, Json]
"""A scalar with its type, since 1 and true are equal in Python."""
_ALL_TYPES: Final = frozenset(TYPES) - {"integer"}
_MAX_REFERENCES: Final = 10
"""The number of references followed from a branch; beyond it any value may be allowed."""


def overlapping_branches(branches: Sequence[SchemaContext | bool]) -> list[list[int]]:
    """Return for every branch the indices of the others that may hold of the same value.

    Others that never do may be included, since only supersets of the branches are compared.
    """
    spend(len(branches) ** 2 // 3)
    supersets = [_superset_of(branch) for branch in branches]
    others: list[list[int]] = [[] for _ in branches]
    for (left, left_set), (right, right_set) in combinations(enumerate(supersets), 2):
        if not _are_disjoint(left_set, right_set):
            others[left].append(right)
            others[right].append(left)
    return others


@dataclass(slots=True)
class _Superset:
    """A superset of the values of a schema.

    It must not be too small, or ``oneOf`` would not negate a branch that can hold: ignoring a
    keyword of the schema is correct, adding a condition that it does not have is not.
    """

    types: frozenset[str] = _ALL_TYPES
    scalars: frozenset[_Scalar] | None = None
    """The only scalars, if the schema lists its values."""
    members: dict[str, frozenset[_Scalar]] = field(default_factory=dict)
    """The values of members whose schemas list only scalars."""
    required: frozenset[str] = frozenset()


def _are_disjoint(left: _Superset, right: _Superset) -> bool:
    """Return whether types, scalars or the values of a member show that no value is in both.

    False if that is not obvious. A member shows it only if one of the two requires the member:
    otherwise an object without it may be in both.
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


def _superset_of(branch: SchemaContext | bool) -> _Superset:
    """Return a superset of the values of a branch, read from its keywords without its formula."""
    branch = _follow_references(branch)
    if isinstance(branch, bool):
        return _Superset(_ALL_TYPES if branch else frozenset())
    keywords = branch.keywords
    superset = _Superset(_allowed_types(keywords), required=frozenset(keywords.get("required", ())))
    values = _listed_values(branch)
    if values is not None:
        superset.types &= {_type_name(value) for value in values}
        superset.scalars = _scalars(values)
    for name, schema in keywords.get("properties", {}).items():
        listed = _listed_values(_follow_references(branch.inner(schema)))
        if listed is not None and not any(isinstance(value, dict | list) for value in listed):
            superset.members[name] = _scalars(listed)
    return superset


def _follow_references(context: SchemaContext | bool) -> SchemaContext | bool:
    """Return the target of a schema that only ``$ref`` restricts, any other schema itself.

    Other kinds of references are not followed. ``True``, which allows everything, after
    ``_MAX_REFERENCES`` references, which may be a cycle.
    """
    for _ in range(_MAX_REFERENCES + 1):
        if isinstance(context, bool) or context.keywords.keys() != {"$ref"}:
            return context
        context = context.target("$ref")
    return True


def _listed_values(context: SchemaContext | bool) -> list[Json] | None:
    """Return the values that a schema lists in ``const`` or ``enum``; ``None`` for any other.

    Only ``const`` counts if it has both. The list belongs to the schema, and must not be changed.
    """
    if isinstance(context, bool):
        return None
    if "const" in context.keywords:
        return [context.keywords["const"]]
    values: list[Json] | None = context.keywords.get("enum")
    return values


def _allowed_types(keywords: dict[str, Json]) -> frozenset[str]:
    """Return the types that ``type`` allows, where integers are numbers; all types without it."""
    names = keywords.get("type")
    if names is None:
        return _ALL_TYPES
    return frozenset(
        "number" if name == "integer" else name
        for name in ([names] if isinstance(names, str) else names)
    )


def _scalars(values: list[Json]) -> frozenset[_Scalar]:
    """Return the scalars among values; equal numbers are one, however they are written."""
    return frozenset(
        (_type_name(value), Decimal(value) if is_number(value) else value)
        for value in values
        if not isinstance(value, dict | list)
    )


def _type_name(value: Json) -> str:
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
