"""JSON values, and the formulas that only given values fit.

``enum`` and ``const`` become such formulas, and so do the earlier items of an array, from which
further items have to differ.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

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
    Unique,
)
from guided.json_schema.formulas.formula import FALSE, Formula, Formulas
from guided.runtime.fuel import spend, with_pauses

__all__ = [
    "Json",
    "differs",
    "equals_earlier",
    "formula_of_value",
    "is_number",
    "one_of_values",
    "read_value",
    "value_key",
    "with_value",
]

Json: TypeAlias = Any
"""A parsed JSON value: dict, list, str, bool, None, int or Decimal."""


def read_value(text: bytes) -> Json:
    """Return the value of a JSON text; numbers become Decimal."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def is_number(value: Json) -> bool:
    """Return whether the value is a JSON number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def value_key(value: Json) -> Hashable:
    """Return a key that is equal for equal values: booleans are no numbers, members have no order.

    A boolean is put into a tuple, since ``True == 1`` in Python.
    """
    if isinstance(value, list):
        return ("array", *[value_key(item) for item in value])
    if isinstance(value, dict):
        return frozenset([(name, value_key(item)) for name, item in value.items()])
    return (value,) if isinstance(value, bool) else value


# --- formulas that only given values fit ------------------------------------------------------


def one_of_values(values: Sequence[Json], formulas: Formulas) -> Formula:
    """Return the formula that a value equals one of these; a boolean is no number.

    Numbers compare by value. Without values it is FALSE; equal values count once.
    """
    spend(len(values))
    scalars = [value for value in with_pauses(values) if not isinstance(value, dict | list)]
    options = [_one_of_scalars(scalars, formulas)] if scalars else []
    nested = [value for value in with_pauses(values) if isinstance(value, dict | list)]
    options += [formula_of_value(value, formulas) for value in with_pauses(nested)]
    return formulas.any_of(options)


def formula_of_value(value: Json, formulas: Formulas) -> Formula:
    """Exactly this value.

    Recurses once for each level of the value: the depth of schemas is bounded, and so is that of
    the shortest values that a search finds.
    """
    if not isinstance(value, dict | list):
        return _one_of_scalars([value], formulas)
    leaf = formulas.leaf
    inner = value.values() if isinstance(value, dict) else value
    parts = tuple([formula_of_value(item, formulas) for item in inner])
    if isinstance(value, list):
        count = ItemCount(len(parts), len(parts))
        kind, said = JsonType.ARRAY, [leaf(Items(parts, FALSE)), leaf(count)]
    else:
        members = Members(tuple(zip(value, parts, strict=True)), (), FALSE)
        kind, said = JsonType.OBJECT, [leaf(members), *(leaf(Has(name)) for name in value)]
    return formulas.all_of([leaf(Types(frozenset({kind}))), *said])


def _one_of_scalars(values: Sequence[Json], formulas: Formulas) -> Formula:
    """Return one assertion for each type that occurs, so that long lists stay small formulas.

    Callers pass at least one value: none would make an assertion that nothing fits, which is not
    FALSE.
    """
    texts = [each for each in with_pauses(values) if isinstance(each, str)]
    strings = tuple(dict.fromkeys(with_pauses(texts)))
    numeric = [Decimal(value) for value in with_pauses(values) if is_number(value)]
    numbers = tuple(dict.fromkeys(with_pauses(numeric)))
    booleans = frozenset([value for value in with_pauses(values) if isinstance(value, bool)])
    types = set()
    parts: list[Formula] = []
    if None in values:
        types.add(JsonType.NULL)
    if booleans:
        types.add(JsonType.BOOLEAN)
        # If a value may be both, its type says enough.
        if len(booleans) == 1:
            parts.append(formulas.leaf(Booleans(booleans)))
    if numbers:
        types.add(JsonType.NUMBER)
        parts.append(formulas.leaf(NumberChoices(numbers)))
    if strings:
        types.add(JsonType.STRING)
        parts.append(formulas.leaf(StringChoices(strings)))
    return formulas.all_of([formulas.leaf(Types(frozenset(types))), *parts])


# --- the earlier items of an array ------------------------------------------------------------


def equals_earlier(about: Unique, formulas: Formulas) -> Formula:
    """Return the formula that a value equals an earlier item of an array; FALSE if there is none.

    Strings and numbers are each one list, with their type beside it: a list alone would hold of all
    values of other types.
    """
    leaf, parts = formulas.leaf, list(about.others)
    for kind, values in (
        (JsonType.STRING, StringChoices(about.strings) if about.strings else None),
        (JsonType.NUMBER, NumberChoices(about.numbers) if about.numbers else None),
    ):
        if values is not None:
            parts.append(formulas.all_of([leaf(Types(frozenset((kind,)))), leaf(values)]))
    return formulas.any_of(parts)


def differs(about: Unique, formulas: Formulas) -> Formula:
    """Return the formula that a value differs from all earlier items of an array."""
    return formulas.negate(equals_earlier(about, formulas))


def with_value(about: Unique, value: Json, formulas: Formulas) -> Unique:
    """Return the same after one more item, as ``read_value`` reads it.

    Items of one type are kept together, so that all of them are one list in a formula.
    """
    if isinstance(value, str):
        return replace(about, strings=(*about.strings, value))
    if isinstance(value, Decimal):
        return replace(about, numbers=(*about.numbers, value))
    return replace(about, others=(*about.others, formula_of_value(value, formulas)))
