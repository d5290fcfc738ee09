"""What a schema asks about types, numbers, strings and listed values, as formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from guided.errors import UnsupportedFeatureError
from guided.json_schema.formulas.assertions import Bound, JsonType, Length, Matches, Numbers, Types
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.formulas.values import one_of_values
from guided.json_schema.reader.formats import format_regular
from guided.json_schema.reader.keywords import Draft
from guided.json_schema.reader.visit import Visit, counting
from guided.spec import FormatMode

__all__ = ["LISTED_FORMULAS", "SCALAR_FORMULAS"]


def _types(visit: Visit) -> Formula:
    """``type``; ``_numbers`` handles whole numbers where other keywords call it.

    TRUE for all types together. ``integer`` is ``Types`` of numbers and ``Numbers(integer=True)``.
    """
    value = visit.keywords["type"]
    names = [value] if isinstance(value, str) else value
    found = _TYPES.get(tuple(names))
    if found is None:
        found = frozenset(_JSON_TYPES[name] for name in names)
    allowed = TRUE if found == _EVERY_TYPE else visit.formulas.leaf(Types(found))
    if _only_integers(visit) and not any(word in visit.keywords for word in _NUMERIC):
        whole = Numbers(integer=True, literal=_by_spelling(visit))
        return visit.formulas.all_of([allowed, visit.formulas.leaf(whole)])
    return allowed


def _numbers(visit: Visit) -> Formula:
    """Return all keywords about numbers as one assertion, which is one automaton.

    Registered for all of ``_NUMERIC``, so it is called once; ``type`` may also ask for whole
    numbers.
    """
    whole = _only_integers(visit)
    return visit.formulas.leaf(
        Numbers(
            integer=whole,
            literal=whole and _by_spelling(visit),
            low=_bound(visit, "minimum", "exclusiveMinimum", max),
            high=_bound(visit, "maximum", "exclusiveMaximum", min),
            multiple_of=_decimal(visit.keywords.get("multipleOf")),
        )
    )


def _bound(
    visit: Visit,
    keyword: str,
    strict_keyword: str,
    tighter: Callable[[Decimal, Decimal], Decimal],
) -> Bound | None:
    """Return the tighter of an inclusive and an exclusive bound; of equal ones, the exclusive.

    ``tighter`` returns the tighter of two values: the greater of low bounds, the less of high ones.
    """
    value = _decimal(visit.keywords.get(keyword))
    strict = visit.keywords.get(strict_keyword)
    if isinstance(strict, bool):  # draft 4: it says whether the other keyword is exclusive
        return None if value is None else Bound(value, strict)
    limit = _decimal(strict)
    if limit is None or value is None:
        return Bound(limit, True) if limit is not None else None if value is None else Bound(value)
    chosen = tighter(value, limit)
    return Bound(chosen, strict=chosen == limit)


def _decimal(value: int | Decimal | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _only_integers(visit: Visit) -> bool:
    names = visit.keywords.get("type", ())
    return names == "integer" or ("integer" in names and "number" not in names)


def _by_spelling(visit: Visit) -> bool:
    """Return whether a number is an integer by how it is written: ``1.0`` is one since draft 6."""
    return visit.location.resource.dialect.draft is Draft.DRAFT_4


def _pattern(visit: Visit) -> Formula:
    found = visit.lowering.regular(visit.keywords["pattern"], visit.pointer("pattern"))
    return visit.formulas.leaf(Matches(found))


def _format(visit: Visit) -> Formula:
    """``format``: TRUE if it is an annotation, by the options or because it is unknown.

    A dialect that asserts formats decides: it overrides the options, and what cannot be enforced
    is refused.
    """
    dialect = visit.location.resource.dialect
    if visit.lowering.options.format is not FormatMode.ASSERT and not dialect.asserts_format:
        return TRUE
    name = visit.keywords["format"]
    regular = format_regular(name)
    if regular is not None:
        return visit.formulas.leaf(Matches(regular))
    if dialect.asserts_format:
        raise UnsupportedFeatureError(
            f"the format {name!r} cannot be enforced, and the schema's metaschema requires it",
            pointer=visit.pointer("format"),
            hint="write a pattern",
        )
    return TRUE


_JSON_TYPES: Final = {str(one.value): one for one in JsonType} | {"integer": JsonType.NUMBER}
_TYPES: Final = {(name,): frozenset({json_type}) for name, json_type in _JSON_TYPES.items()}
_EVERY_TYPE: Final = frozenset(JsonType)
_NUMERIC: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
SCALAR_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {
    "type": _types,
    **dict.fromkeys(_NUMERIC, _numbers),
    **dict.fromkeys(("minLength", "maxLength"), counting("minLength", "maxLength", Length)),
    "pattern": _pattern,
    "format": _format,
}
"""The formula of each keyword; keywords that make one formula together share a function."""


def _enum(visit: Visit) -> Formula:
    return one_of_values(visit.keywords["enum"], visit.formulas)


def _const(visit: Visit) -> Formula:
    return one_of_values([visit.keywords["const"]], visit.formulas)


LISTED_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {"enum": _enum, "const": _const}
