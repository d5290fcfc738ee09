"""Makes pieces of regular expressions: literal text, and ranges of numbers and of dates."""

from __future__ import annotations

import re

__all__ = ["at_least", "at_most", "integers_between", "literal"]

_SYNTAX = re.compile(r"[\^$\\.*+?()\[\]{}|/]")


def literal(text: str) -> str:
    """Escape the syntax characters of ECMA-262 and no others, as it has no further escapes."""
    return _SYNTAX.sub(lambda found: "\\" + found[0], text)


def at_least(text: str) -> str:
    """Return a pattern of the texts that are not below this one, and differ only in digits.

    "3-5" -> ``(?:3-[5-9]|[4-9]-\\d)``
    """
    return _at_least_or_most(text, above=True)


def at_most(text: str) -> str:
    """Return a pattern of the texts that are not above this one, and differ only in digits."""
    return _at_least_or_most(text, above=False)


def integers_between(low: int | None, high: int | None) -> str:
    """Return a pattern of the integers from ``low`` to ``high``, without leading zeros."""
    if low is not None and high is not None and low > high:
        return r"[^\s\S]"
    options = []
    if low is None or low < 0:
        least = 1 if high is None or high >= 0 else -high
        options.append("-" + _naturals(least, None if low is None else -low))
    if high is None or high >= 0:
        options.append(_naturals(max(low or 0, 0), high))
    return _any_of(options)


def _naturals(low: int, high: int | None) -> str:
    options = []
    digits = len(str(low))
    while high is None or digits <= len(str(high)):
        first = max(low, 0 if digits == 1 else 10 ** (digits - 1))
        if high is None and first > low:
            options.append(rf"[1-9]\d{{{digits - 1},}}")
            break
        last = 10**digits - 1 if high is None else min(high, 10**digits - 1)
        options.append(_between(str(first), str(last)))
        digits += 1
    return _any_of(options)


def _between(low: str, high: str) -> str:
    """Return a pattern of the digits from ``low`` to ``high``, which have one length."""
    if low[:1] == high[:1]:
        return low[:1] + _between(low[1:], high[1:]) if low else ""
    first, last = int(low[0]), int(high[0])
    options = []
    if low[1:].strip("0"):
        options.append(low[0] + at_least(low[1:]))
        first += 1
    if high[1:].strip("9"):
        options.append(high[0] + at_most(high[1:]))
        last -= 1
    if first <= last:
        options.append(_digit(first, last) + _same_shape(low[1:]))
    return _any_of(options)


def _at_least_or_most(text: str, *, above: bool) -> str:
    limit = "0" if above else "9"
    if all(character == limit for character in text if character.isdigit()):
        return _same_shape(text)
    first, rest = text[0], text[1:]
    if not first.isdigit():
        return literal(first) + _at_least_or_most(rest, above=above)
    options = [first + _at_least_or_most(rest, above=above)]
    if first != ("9" if above else "0"):
        digits = _digit(int(first) + 1, 9) if above else _digit(0, int(first) - 1)
        options.append(digits + _same_shape(rest))
    return _any_of(options)


def _same_shape(text: str) -> str:
    """Return a pattern of the texts that differ from this one only in digits."""
    return "".join(r"\d" if character.isdigit() else literal(character) for character in text)


def _digit(low: int, high: int) -> str:
    return str(low) if low == high else f"[{low}-{high}]"


def _any_of(options: list[str]) -> str:
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"
