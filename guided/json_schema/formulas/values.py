"""JSON values, and formulas that only given values fit.

Such formulas are made of ``enum`` and ``const``, and of the earlier items of an array, from which
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
    HasMember,
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
from guided.runtime.work_budget import spend, with_pauses

__all__ = [
    "Json",
    "differs_from_earlier",
    "equals_earlier",
    "formula_of_value",
    "is_number",
    "one_of_values",
    "read_value",
    "value_key",
    "with_earlier_item",
]

Json: TypeAlias = Any
"""A parsed JSON value: dict, list, str, bool, None, int or Decimal."""


def read_value(text: bytes) -> Json:
    """Parse a JSON text; numbers become Decimal."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def is_number(value: Json) -> bool:
    """Return whether the value is a JSON number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def value_key(value: Json) -> Hashable:
    """Return a hashable key of a value; equal values, in the sense of JSON, have equal keys.

    Members have no order, and booleans are no numbers: they are put into a tuple, since
    ``True == 1`` in Python.
    """
    if isinstance(value, list):
        return ("array", *[value_key(item) for item in value])
    if isinstance(value, dict):
        return frozenset([(name, value_key(item)) for name, item in value.items()])
    return (value,) if isinstance(value, bool) else value


# --- formulas that only given values fit ------------------------------------------------------


def one_of_values(values: Sequence[Json], formulas: Formulas) -> Formula:
    """Return the formula that holds of the values equal to one of these; FALSE without values.

    Numbers are compared by value, and booleans are no numbers.
    """
    spend(len(values))
    scalars = [value for value in with_pauses(values) if not isinstance(value, dict | list)]
    options = [_one_of_scalars(scalars, formulas)] if scalars else []
    nested = [value for value in with_pauses(values) if isinstance(value, dict | list)]
    options += [formula_of_value(value, formulas) for value in with_pauses(nested)]
    return formulas.any_of(options)


def formula_of_value(value: Json, formulas: Formulas) -> Formula:
    """Return the formula that holds only of this value.

    Recurses once for each level of the value: the depth of schemas is bounded, and so is that of
    the shortest values that a search finds.
    """
    if not isinstance(value, dict | list):
        return _scalar(value, formulas)
    leaf = formulas.leaf
    inner = value.values() if isinstance(value, dict) else value
    parts = tuple([formula_of_value(item, formulas) for item in inner])
    if isinstance(value, list):
        count = ItemCount(len(parts), len(parts))
        kind, assertions = JsonType.ARRAY, [leaf(Items(parts, FALSE)), leaf(count)]
    else:
        members = Members(tuple(zip(value, parts, strict=True)), (), FALSE)
        kind = JsonType.OBJECT
        assertions = [leaf(members), *(leaf(HasMember(name)) for name in value)]
    return formulas.all_of([leaf(Types(frozenset({kind}))), *assertions])


def _scalar(value: Json, formulas: Formulas) -> Formula:
    """Return what ``_one_of_scalars`` returns for one value, of which a document may have many."""
    spend(2)
    leaf = formulas.leaf
    if value is None:
        return leaf(Types(frozenset((JsonType.NULL,))))
    if isinstance(value, bool):
        kind, listed = JsonType.BOOLEAN, leaf(Booleans(frozenset((value,))))
    elif isinstance(value, str):
        kind, listed = JsonType.STRING, leaf(StringChoices((value,)))
    else:
        kind, listed = JsonType.NUMBER, leaf(NumberChoices((Decimal(value),)))
    return formulas.all_of([leaf(Types(frozenset((kind,)))), listed])


def _one_of_scalars(values: Sequence[Json], formulas: Formulas) -> Formula:
    """Return the formula that only these scalars fit: one assertion for each type.

    A list of values holds of all values of other types, so ``Types`` restricts it. There must be at
    least one value: for none, the result would not be FALSE.
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
        # If both are allowed, the type is enough.
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


def equals_earlier(unique: Unique, formulas: Formulas) -> Formula:
    """Return the formula of the values equal to an earlier item of an array; FALSE without any.

    The lists of strings and of numbers are each joined with their type: a list alone holds of all
    values of other types.
    """
    leaf, parts = formulas.leaf, list(unique.others)
    for kind, values in (
        (JsonType.STRING, StringChoices(unique.strings) if unique.strings else None),
        (JsonType.NUMBER, NumberChoices(unique.numbers) if unique.numbers else None),
    ):
        if values is not None:
            parts.append(formulas.all_of([leaf(Types(frozenset((kind,)))), leaf(values)]))
    return formulas.any_of(parts)


def differs_from_earlier(unique: Unique, formulas: Formulas) -> Formula:
    """Return the formula of the values that differ from all earlier items of an array."""
    return formulas.negate(equals_earlier(unique, formulas))


def with_earlier_item(unique: Unique, value: Json, formulas: Formulas) -> Unique:
    """Return the assertion after one more item, a value as ``read_value`` returns it.

    Strings and numbers are kept separately, so that each become one list in a formula.
    """
    if isinstance(value, str):
        return replace(unique, strings=(*unique.strings, value))
    if isinstance(value, Decimal):
        return replace(unique, numbers=(*unique.numbers, value))
    return replace(unique, others=(*unique.others, formula_of_value(value, formulas)))
