"""The meaning of a formula, by recursion over a finished value: the oracle for recognisers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any as AnyValue

from guided.json_schema.formulas.assertions import (
    ASSERTED_TYPE,
    Assertion,
    Booleans,
    Contains,
    HasMember,
    ItemCount,
    Items,
    JsonType,
    Length,
    Matches,
    MemberCount,
    Members,
    Names,
    NumberChoices,
    Numbers,
    StringChoices,
    Types,
    Unique,
)
from guided.json_schema.formulas.formula import (
    AllOf,
    AnyOf,
    Constant,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
)
from guided.regular.dfa import Dfa, dfa_from_regular
from guided.regular.expression import Regular

__all__ = ["exactly_one", "holds"]


def exactly_one(formulas: Formulas, parts: Sequence[Formula]) -> Formula:
    """A formula that holds if exactly one of the given ones holds."""
    return formulas.any_of(
        formulas.all_of(
            [part, *(formulas.negate(other) for j, other in enumerate(parts) if j != i)]
        )
        for i, part in enumerate(parts)
    )


def holds(formula: Formula, value: AnyValue) -> bool:
    """Whether a JSON value (numbers int or Decimal) fits the formula."""
    if isinstance(formula, Constant):
        return formula.value
    if isinstance(formula, SchemaNode):
        return holds(formula.formula, value)
    if isinstance(formula, Not):
        return not holds(formula.item, value)
    if isinstance(formula, AllOf):
        return all(holds(part, value) for part in formula.parts)
    if isinstance(formula, AnyOf):
        return any(holds(part, value) for part in formula.parts)
    assert isinstance(formula, Leaf)
    return _fits(formula.assertion, value)


def _fits(assertion: Assertion, value: AnyValue) -> bool:
    if isinstance(assertion, Types):
        return _type(value) in assertion.types
    if ASSERTED_TYPE[type(assertion)] is not _type(value):
        return True
    match assertion:
        case Booleans(values):
            return value in values
        case Numbers():
            return _number_fits(assertion, Decimal(value))
        case NumberChoices(numbers):
            return Decimal(value) in numbers
        case Matches(pattern):
            return _found(pattern, value)
        case Length(low, high):
            return _between(low, len(value), high)
        case StringChoices(strings):
            return value in strings
        case Members():
            return all(
                holds(formula, item)
                for name, item in value.items()
                for formula in _about_member(assertion, name)
            )
        case Names(about):
            return all(holds(about, name) for name in value)
        case HasMember(name):
            return name in value
        case MemberCount(low, high) | ItemCount(low, high):
            return _between(low, len(value), high)
        case Items(prefix, rest):
            return all(
                holds(prefix[index] if index < len(prefix) else rest, item)
                for index, item in enumerate(value)
            )
        case Contains(item, low, high):
            return _between(low, sum(holds(item, one) for one in value), high)
        case Unique():
            frozen = [_frozen(item) for item in value]
            return len(set(frozen)) == len(frozen)
        case _:
            raise AssertionError(f"{assertion!r} is no assertion")


def _about_member(members: Members, name: str) -> list[Formula]:
    formulas = [formula for named, formula in members.named if named == name]
    formulas += (formula for pattern, formula in members.patterns if _found(pattern, name))
    return formulas or [members.rest]


def _number_fits(numbers: Numbers, value: Decimal) -> bool:
    low, high = numbers.low, numbers.high
    if numbers.integer and value != value.to_integral_value():
        return False
    if low is not None and not (value > low.value or (value == low.value and not low.strict)):
        return False
    if high is not None and not (value < high.value or (value == high.value and not high.strict)):
        return False
    if numbers.multiple_of is None:
        return True
    left, right = value.as_integer_ratio(), numbers.multiple_of.as_integer_ratio()
    return (left[0] * right[1]) % (left[1] * right[0]) == 0


def _between(low: int, count: int, high: int | None) -> bool:
    return low <= count and (high is None or count <= high)


def _type(value: AnyValue) -> JsonType:
    if value is None:
        return JsonType.NULL
    if isinstance(value, bool):
        return JsonType.BOOLEAN
    if isinstance(value, int | Decimal):
        return JsonType.NUMBER
    if isinstance(value, str):
        return JsonType.STRING
    return JsonType.ARRAY if isinstance(value, list) else JsonType.OBJECT


def _frozen(value: AnyValue) -> AnyValue:
    """Equal for equal JSON values; no boolean is a number."""
    if isinstance(value, list):
        return "array", tuple(map(_frozen, value))
    if isinstance(value, dict):
        return "object", frozenset((name, _frozen(item)) for name, item in value.items())
    return _type(value), Decimal(value) if _type(value) is JsonType.NUMBER else value


def _found(pattern: Regular, text: str) -> bool:
    return _dfa(pattern).accepts(text)


@functools.lru_cache(4096)
def _dfa(pattern: Regular) -> Dfa:
    return dfa_from_regular(pattern, search=True)
