"""Formulas of the keywords about types, numbers, strings and listed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from guided.errors import UnsupportedFeatureError
from guided.json_schema.formulas.assertions import Bound, JsonType, Length, Matches, Numbers, Types
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.formulas.values import Json, one_of_values
from guided.json_schema.reader.formats import format_regular
from guided.json_schema.reader.keywords import Draft
from guided.json_schema.reader.locations import Location
from guided.json_schema.reader.schema_context import SchemaContext, count_formula

__all__ = ["LISTED_FORMULAS", "SCALAR_FORMULAS", "number_assertion"]


def _types(context: SchemaContext) -> Formula:
    """Return the formula of ``type``; TRUE if it lists all types.

    ``integer`` is ``Types`` of numbers and ``Numbers(integer=True)``. If there are keywords about
    numbers, the latter is part of their assertion (``_numbers``).
    """
    value = context.keywords["type"]
    names = [value] if isinstance(value, str) else value
    types = _TYPES.get(tuple(names))
    if types is None:
        types = frozenset(_JSON_TYPES[name] for name in names)
    allowed = TRUE if types == _EVERY_TYPE else context.formulas.leaf(Types(types))
    if _only_integers(context.keywords) and not any(word in context.keywords for word in _NUMERIC):
        whole = Numbers(integer=True, by_spelling=_by_spelling(context.location))
        return context.formulas.all_of([allowed, context.formulas.leaf(whole)])
    return allowed


def _numbers(context: SchemaContext) -> Formula:
    return context.formulas.leaf(number_assertion(context.location))


def number_assertion(location: Location) -> Numbers:
    """Return all keywords about numbers as one assertion, so that they become one automaton.

    ``type`` is among them if it only allows integers.
    """
    keywords = location.keywords
    whole = _only_integers(keywords)
    return Numbers(
        integer=whole,
        by_spelling=whole and _by_spelling(location),
        low=_bound(keywords, "minimum", "exclusiveMinimum", max),
        high=_bound(keywords, "maximum", "exclusiveMaximum", min),
        multiple_of=_decimal(keywords.get("multipleOf")),
    )


def _bound(
    keywords: Mapping[str, Json],
    keyword: str,
    strict_keyword: str,
    tighter: Callable[[Decimal, Decimal], Decimal],
) -> Bound | None:
    """Return the tighter of an inclusive and an exclusive bound; of equal ones, the exclusive.

    ``tighter`` returns the tighter of two values: ``max`` for lower bounds, ``min`` for upper ones.
    """
    value = _decimal(keywords.get(keyword))
    strict = keywords.get(strict_keyword)
    if isinstance(strict, bool):  # draft 4: it says whether the other keyword is exclusive
        return None if value is None else Bound(value, strict)
    limit = _decimal(strict)
    if limit is None or value is None:
        return Bound(limit, True) if limit is not None else None if value is None else Bound(value)
    chosen = tighter(value, limit)
    return Bound(chosen, strict=chosen == limit)


def _decimal(value: int | Decimal | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _only_integers(keywords: Mapping[str, Json]) -> bool:
    """Return whether ``type`` allows integers and no other numbers."""
    names = keywords.get("type", ())
    return names == "integer" or ("integer" in names and "number" not in names)


def _by_spelling(location: Location) -> bool:
    """Return whether a number is an integer by how it is written: ``1.0`` is one since draft 6."""
    return location.resource.dialect.draft is Draft.DRAFT_4


def _pattern(context: SchemaContext) -> Formula:
    found = context.lowering.regular(context.keywords["pattern"], context.pointer("pattern"))
    return context.formulas.leaf(Matches(found))


def _format(context: SchemaContext) -> Formula:
    """Return the formula of ``format``: TRUE if the options ignore formats, or for an unknown one.

    A dialect that asserts formats overrides the options; then UnsupportedFeatureError is raised for
    an unknown one.
    """
    dialect = context.location.resource.dialect
    if not dialect.enforces_format(context.lowering.options):
        return TRUE
    name = context.keywords["format"]
    regular = format_regular(name, dialect.draft)
    if regular is not None:
        return context.formulas.leaf(Matches(regular))
    if dialect.asserts_format:
        raise UnsupportedFeatureError(
            f"the format {name!r:.80} cannot be enforced, and the schema's metaschema requires it",
            pointer=context.pointer("format"),
            hint="write a pattern",
        )
    return TRUE


_JSON_TYPES: Final = {str(one.value): one for one in JsonType} | {"integer": JsonType.NUMBER}
_TYPES: Final = {(name,): frozenset({json_type}) for name, json_type in _JSON_TYPES.items()}
_EVERY_TYPE: Final = frozenset(JsonType)
_NUMERIC: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
SCALAR_FORMULAS: Mapping[str, Callable[[SchemaContext], Formula]] = {
    "type": _types,
    **dict.fromkeys(_NUMERIC, _numbers),
    **dict.fromkeys(("minLength", "maxLength"), count_formula("minLength", "maxLength", Length)),
    "pattern": _pattern,
    "format": _format,
}
"""The formula of each keyword; keywords that make one formula together share a function."""


def _enum(context: SchemaContext) -> Formula:
    return one_of_values(context.keywords["enum"], context.formulas)


def _const(context: SchemaContext) -> Formula:
    return one_of_values([context.keywords["const"]], context.formulas)


LISTED_FORMULAS: Mapping[str, Callable[[SchemaContext], Formula]] = {"enum": _enum, "const": _const}
