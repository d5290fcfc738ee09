"""The items that lie behind in an array, as what further ones have to differ from."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any as Json

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

__all__ = ["differs", "formula_of_value", "one_of_taken", "with_value"]


def one_of_taken(about: Unique, formulas: Formulas) -> Formula:
    """That a value equals one of the items that lie behind."""
    leaf, parts = formulas.leaf, list(about.others)
    for kind, values in (
        (JsonType.STRING, StringChoices(about.strings) if about.strings else None),
        (JsonType.NUMBER, NumberChoices(about.numbers) if about.numbers else None),
    ):
        if values is not None:
            parts.append(formulas.all_of([leaf(Types(frozenset((kind,)))), leaf(values)]))
    return formulas.any_of(parts)


def differs(about: Unique, formulas: Formulas) -> Formula:
    """That a value equals none of them."""
    return formulas.negate(one_of_taken(about, formulas))


def with_value(about: Unique, value: Json, formulas: Formulas) -> Unique:
    """One more item that lies behind."""
    if isinstance(value, str):
        return replace(about, strings=(*about.strings, value))
    if isinstance(value, Decimal):
        return replace(about, numbers=(*about.numbers, value))
    return replace(about, others=(*about.others, formula_of_value(value, formulas)))


def formula_of_value(value: Json, formulas: Formulas) -> Formula:
    """What only values equal to this one fit; numbers are Decimal."""
    if value is None:
        return formulas.leaf(Types(frozenset((JsonType.NULL,))))
    if isinstance(value, bool):
        return formulas.all_of(
            [
                formulas.leaf(Types(frozenset((JsonType.BOOLEAN,)))),
                formulas.leaf(Booleans(frozenset((value,)))),
            ]
        )
    if isinstance(value, Decimal | int):
        kind, parts = JsonType.NUMBER, [formulas.leaf(NumberChoices((Decimal(value),)))]
    elif isinstance(value, str):
        kind, parts = JsonType.STRING, [formulas.leaf(StringChoices((value,)))]
    elif isinstance(value, list):
        kind = JsonType.ARRAY
        items = tuple(formula_of_value(item, formulas) for item in value)
        parts = [
            formulas.leaf(Items(items, FALSE)),
            formulas.leaf(ItemCount(len(items), len(items))),
        ]
    else:
        kind = JsonType.OBJECT
        named = tuple((name, formula_of_value(item, formulas)) for name, item in value.items())
        parts = [
            formulas.leaf(Members(named, (), FALSE)),
            *(formulas.leaf(Has(name)) for name in value),
        ]
    return formulas.all_of([formulas.leaf(Types(frozenset((kind,)))), *parts])
