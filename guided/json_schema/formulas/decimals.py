"""Decimal numbers as exact texts and as digits with a power of ten."""

from __future__ import annotations

from decimal import Decimal

__all__ = ["exact_text", "split"]


def exact_text(value: Decimal) -> str:
    """The shortest spelling without exponent, exact however many digits it has."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text in ("-0", "") else text


def split(value: Decimal) -> tuple[str, int]:
    """The digits of a magnitude without zeros at either end, and the power of ten of the last.

    Zero has no digits.
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    return stripped, exponent + len(text) - len(stripped) if stripped else 0
