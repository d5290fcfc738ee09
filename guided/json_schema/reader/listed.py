"""Values that a schema lists, as formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from guided.json_schema.formulas.assertions import (
    Booleans,
    Has,
    ItemCount,
    Items,
    JsonType,
    Members,
    NumberChoices,
    StringChoices,
    Types,
)
from guided.json_schema.formulas.formula import FALSE, Formula, Formulas
from guided.json_schema.reader.reader import Json, is_number
from guided.json_schema.reader.visit import Visit
from guided.runtime.fuel import spend

__all__ = ["LISTED_FORMULAS", "one_of_values"]


def one_of_values(formulas: Formulas, values: Sequence[Json]) -> Formula:
    """The value equals one of these; numbers compare by value, and no boolean is a number."""
    spend(len(values))
    scalars = [value for value in values if not isinstance(value, dict | list)]
    options = [_one_of_scalars(formulas, scalars)] if scalars else []
    options += (_this(formulas, value) for value in values if isinstance(value, dict | list))
    return formulas.any_of(options)


def _this(formulas: Formulas, value: Json) -> Formula:
    """Exactly this value; calls itself once a level, and a schema's depth is bounded."""
    if not isinstance(value, dict | list):
        return _one_of_scalars(formulas, [value])
    parts = []
    for item in value.values() if isinstance(value, dict) else value:
        parts.append(_this(formulas, item))
    if isinstance(value, list):
        return formulas.all_of(
            [
                formulas.leaf(Types(frozenset({JsonType.ARRAY}))),
                formulas.leaf(Items(tuple(parts), FALSE)),
                formulas.leaf(ItemCount(len(parts), len(parts))),
            ]
        )
    return formulas.all_of(
        [
            formulas.leaf(Types(frozenset({JsonType.OBJECT}))),
            formulas.leaf(Members(tuple(zip(value, parts, strict=True)), (), FALSE)),
            *(formulas.leaf(Has(name)) for name in value),
        ]
    )


def _one_of_scalars(formulas: Formulas, values: Sequence[Json]) -> Formula:
    """One assertion for each type that occurs, so that long lists stay small formulas."""
    strings = tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
    numbers = tuple(dict.fromkeys(Decimal(value) for value in values if is_number(value)))
    booleans = frozenset(value for value in values if isinstance(value, bool))
    types = set()
    parts: list[Formula] = []
    if None in values:
        types.add(JsonType.NULL)
    if booleans:
        types.add(JsonType.BOOLEAN)
        if len(booleans) == 1:
            parts.append(formulas.leaf(Booleans(booleans)))
    if numbers:
        types.add(JsonType.NUMBER)
        parts.append(formulas.leaf(NumberChoices(numbers)))
    if strings:
        types.add(JsonType.STRING)
        parts.append(formulas.leaf(StringChoices(strings)))
    return formulas.all_of([formulas.leaf(Types(frozenset(types))), *parts])


def _enum(visit: Visit) -> Formula:
    return one_of_values(visit.formulas, visit.keywords["enum"])


def _const(visit: Visit) -> Formula:
    return one_of_values(visit.formulas, [visit.keywords["const"]])


LISTED_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {"enum": _enum, "const": _const}
