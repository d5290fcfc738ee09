"""Makes JSON Schemas of the floats and decimals that pydantic reads.

Pydantic reads a JSON number with a fraction as a float, so two numbers of many digits may become
the same. Bounds are set such that this never moves a number across them.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

__all__ = [
    "decimal_schema",
    "limit_digits",
    "limit_multiples",
    "limit_to_finite",
    "make_bounds_inclusive",
]

_EXACT_DIGITS = sys.float_info.dig
"""Decimal numbers of at most this many digits survive a conversion to float."""
_LARGEST_QUOTIENT = 10**27
"""Of a decimal by its step: if it has more than 28 digits, there is no remainder to be zero."""
_LARGEST = sys.float_info.max
_LARGEST_DISTINCT = 1e9
"""Up to here multiples of 1e-6 have few enough digits."""
_EXACT_BITS = 50
"""Of a quotient by a step that is exact as a float: it can be told in spite of rounding."""
_LARGEST_MULTIPLE = 4e6
"""Of other steps: up to here rounding moves a float by less than the 1e-9 that pydantic allows."""
_BOUND_NAMES = ("ge", "gt", "le", "lt", "multiple_of")


def make_bounds_inclusive(schema: dict[str, Any]) -> dict[str, Any]:
    """Turn exclusive bounds of floats into inclusive ones, in place: the next float is the bound.

    ``exclusiveMinimum: 0.5`` -> ``minimum: 0.5000000000000001``
    """
    low, high = schema.pop("exclusiveMinimum", None), schema.pop("exclusiveMaximum", None)
    if low is not None:
        _raise_minimum(schema, math.nextafter(low, math.inf))
    if high is not None:
        _lower_maximum(schema, math.nextafter(high, -math.inf))
    return schema


def limit_multiples(schema: dict[str, Any]) -> dict[str, Any]:
    """Limit multiples, in place, to those that pydantic finds to be such in rounded floats."""
    if "multipleOf" in schema:
        step = Fraction(schema["multipleOf"])
        is_exact = step.denominator < 2**_EXACT_BITS and Fraction(str(schema["multipleOf"])) == step
        most = float(step * 2**_EXACT_BITS) if is_exact else _LARGEST_MULTIPLE
        _raise_minimum(schema, -most)
        _lower_maximum(schema, most)
    return schema


def limit_to_finite(schema: dict[str, Any]) -> dict[str, Any]:
    """Limit numbers, in place, to those that are finite as floats."""
    _raise_minimum(schema, -_LARGEST)
    _lower_maximum(schema, _LARGEST)
    return schema


def limit_digits(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of numbers with so few digits that different ones are different floats."""
    low, high = schema.get("minimum", -_LARGEST_DISTINCT), schema.get("maximum", _LARGEST_DISTINCT)
    if "multipleOf" in schema or low > _LARGEST_DISTINCT or high < -_LARGEST_DISTINCT:
        return schema
    return {
        **schema,
        "multipleOf": 1e-6,
        "minimum": max(low, -_LARGEST_DISTINCT),
        "maximum": min(high, _LARGEST_DISTINCT),
    }


def decimal_schema(bounds: dict[str, Any], *, allow_infinite: bool) -> dict[str, Any]:
    """Return the schema of decimals as numbers; ``bounds`` are those of pydantic's core schema.

    If digits are counted, numbers with a fraction have at most 15 of them, so that floats
    distinguish them; integers may have more.
    """
    bounds = {
        **bounds,
        **{name: _as_decimal(bounds[name]) for name in _BOUND_NAMES if name in bounds},
    }
    places: int | None = bounds.get("decimal_places")
    digits: int | None = bounds.get("max_digits")
    step: Decimal | None = bounds.get("multiple_of")
    if step is not None:
        bounds |= _bounds_of_multiples(step, bounds)
    if digits == 0:
        return {"not": {}}
    if places is None and digits is None and step is None:
        plain = _apply_float_bounds({"type": "number"}, bounds)
        return plain if allow_infinite else limit_to_finite(plain)
    if places is None and step is not None:
        places = _places(step)
    if places is not None:
        # The zeros after the point count as digits: 0.042 has three.
        fractions = [min(places, _EXACT_DIGITS if digits is None else min(digits, _EXACT_DIGITS))]
    else:
        # As many before the point as remain: 12.345, 1.2345, 0.12345.
        fractions = list(range(min(digits or 0, _EXACT_DIGITS) + 1))
    forms = [
        _schema_of_digits(
            fraction, _whole_digits(digits, fraction if places is None else places), step, bounds
        )
        for fraction in fractions
    ]
    if fractions[0] > 0 and (digits is None or digits > _EXACT_DIGITS):
        forms.append(_schema_of_digits(0, _whole_digits(digits, places or 0), step, bounds))
    schema = forms[0] if len(forms) == 1 else {"anyOf": forms}
    if places is not None and digits is not None and digits <= places:
        # The zero before the point counts if no digit follows.
        return {**schema, "not": {"const": 0}}
    return schema


def _whole_digits(digits: int | None, places: int) -> int | None:
    """Return how many digits may precede the point if ``places`` follow it."""
    return None if digits is None else max(0, digits - places)


def _as_decimal(bound: Decimal | float) -> Decimal:
    """Return a bound as pydantic takes it: for a float, the decimal that it is written as."""
    return bound if isinstance(bound, Decimal) else Decimal(str(bound))


def _bounds_of_multiples(step: Decimal, bounds: dict[str, Any]) -> dict[str, Decimal]:
    """Return ``ge`` and ``le`` such that pydantic can divide by ``step`` all numbers between."""
    largest = step * _LARGEST_QUOTIENT
    return {
        "ge": max(-largest, bounds.get("ge", -largest)),
        "le": min(largest, bounds.get("le", largest)),
    }


def _schema_of_digits(
    fraction: int, whole: int | None, step: Decimal | None, bounds: dict[str, Any]
) -> dict[str, Any]:
    """Return a schema of numbers with at most ``fraction`` digits after the point.

    Before it are at most ``whole``, or any number for ``None``; with a fraction, both together are
    at most 15, so that floats distinguish the numbers. These are multiples of ``step`` and within
    ``bounds``, which are those of pydantic's core schema as decimals.
    """
    unit = Fraction(1, 10**fraction)
    multiple = unit if step is None else _common_multiple(unit, Fraction(step))
    if fraction == 0:
        schema: dict[str, Any] = {"type": "integer"}
        if multiple != 1:
            schema["multipleOf"] = int(multiple)
        if whole is not None:
            schema |= {"minimum": 1 - 10**whole, "maximum": 10**whole - 1}
        return _apply_integer_bounds(schema, bounds)
    schema = {"type": "number", "multipleOf": float(multiple)}
    before = _EXACT_DIGITS - fraction if whole is None else min(whole, _EXACT_DIGITS - fraction)
    most = float(Decimal(10) ** before - Decimal(1).scaleb(-fraction))
    schema |= {"minimum": -most, "maximum": most}
    return _apply_float_bounds(schema, bounds)


def _apply_float_bounds(schema: dict[str, Any], bounds: dict[str, Any]) -> dict[str, Any]:
    """Narrow a schema of numbers, in place, to decimal bounds; of more than 15 digits, to less."""
    up, down = Context(_EXACT_DIGITS, ROUND_CEILING), Context(_EXACT_DIGITS, ROUND_FLOOR)
    if (low := bounds.get("ge")) is not None:
        _raise_minimum(schema, float(up.plus(low)))
    if (low := bounds.get("gt")) is not None:
        _raise_minimum(schema, _next_float(low, up.plus(low), math.inf))
    if (high := bounds.get("le")) is not None:
        _lower_maximum(schema, float(down.plus(high)))
    if (high := bounds.get("lt")) is not None:
        _lower_maximum(schema, _next_float(high, down.plus(high), -math.inf))
    return schema


def _next_float(bound: Decimal, rounded: Decimal, direction: float) -> float:
    """Return the first float beyond a bound; a rounded bound is already beyond it."""
    return float(rounded) if rounded != bound else math.nextafter(float(bound), direction)


def _apply_integer_bounds(schema: dict[str, Any], bounds: dict[str, Any]) -> dict[str, Any]:
    """Narrow a schema of integers, in place, to decimal bounds."""
    if (low := bounds.get("ge")) is not None:
        _raise_minimum(schema, math.ceil(low))
    if (low := bounds.get("gt")) is not None:
        _raise_minimum(schema, math.floor(low) + 1)
    if (high := bounds.get("le")) is not None:
        _lower_maximum(schema, math.floor(high))
    if (high := bounds.get("lt")) is not None:
        _lower_maximum(schema, math.ceil(high) - 1)
    return schema


def _raise_minimum(schema: dict[str, Any], value: float) -> None:
    schema["minimum"] = max(value, schema.get("minimum", value))


def _lower_maximum(schema: dict[str, Any], value: float) -> None:
    schema["maximum"] = min(value, schema.get("maximum", value))


def _places(number: Decimal) -> int:
    """Return how many digits after the point a number needs."""
    exponent = number.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _common_multiple(left: Fraction, right: Fraction) -> Fraction:
    """``lcm(1/100, 1/4)`` -> ``1/4``"""
    return Fraction(
        math.lcm(left.numerator * right.denominator, right.numerator * left.denominator),
        left.denominator * right.denominator,
    )
