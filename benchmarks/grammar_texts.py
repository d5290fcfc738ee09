"""Writes random long texts of grammars of the library, by name."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable

__all__ = ["WRITERS"]

_WORDS = ("name", "value", "total", "count", "index", "price", "user", "x", "y", "alpha", "result")


def _json(rng: random.Random, size: int) -> str:
    def value(depth: int) -> object:
        kind = rng.random()
        if depth and kind < 0.3:
            return {_word(rng): value(depth - 1) for _ in range(rng.randint(1, 5))}
        if depth and kind < 0.5:
            return [value(depth - 1) for _ in range(rng.randint(0, 6))]
        if kind < 0.75:
            return " ".join(_word(rng) for _ in range(rng.randint(1, 6)))
        return rng.choice([True, None, rng.randint(-9999, 9999), round(rng.random() * 100, 3)])

    items: list[object] = []
    while len(text := json.dumps(items, indent=rng.choice([None, 1]))) < 3 * size:
        items.append(value(5))
    return text


def _arithmetic(rng: random.Random, size: int) -> str:
    def term(depth: int) -> str:
        kind = rng.random()
        if depth and kind < 0.35:
            return f"({total(depth - 1)})"
        if depth and kind < 0.5:
            given = ", ".join(total(depth - 1) for _ in range(rng.randint(0, 3)))
            return f"{_word(rng)}({given})"
        return _word(rng) if kind < 0.75 else _number(rng)

    def total(depth: int) -> str:
        parts = [term(depth)]
        for _ in range(rng.randint(0, 3)):
            parts += [rng.choice("+-*/^"), term(depth)]
        return rng.choice(["", " "]).join(parts)

    text = total(6)
    while len(text) < 2.4 * size:
        text += f" {rng.choice('+-*/')} {term(6)}"
    return text


def _sql_select(rng: random.Random, size: int) -> str:
    def name() -> str:
        return rng.choice([_word(rng), f"{_word(rng)}.{_word(rng)}"])

    def operand(depth: int) -> str:
        kind = rng.random()
        if depth and kind < 0.15:
            inner = ", ".join(expression(depth - 1) for _ in range(rng.randint(1, 2)))
            return f"{rng.choice(['SUM', 'MAX', 'COALESCE'])}({inner})"
        if depth and kind < 0.2:
            cases = f"WHEN {condition(depth - 1)} THEN {expression(depth - 1)}"
            return f"CASE {cases} ELSE {expression(depth - 1)} END"
        if depth and kind < 0.25:
            return f"({select(depth - 1)})"
        if kind < 0.7:
            return name()
        return _number(rng) if kind < 0.9 else f"'{_word(rng)} {_word(rng)}'"

    def expression(depth: int) -> str:
        more = (f" {rng.choice('+-*/')} {operand(depth)}" for _ in range(rng.choice([0, 0, 1, 2])))
        return operand(depth) + "".join(more)

    def comparison(depth: int) -> str:
        left, right = expression(depth), expression(depth)
        kind = rng.random()
        if kind < 0.1:
            return f"{left} IS NOT NULL"
        if kind < 0.2:
            return f"{left} BETWEEN {right} AND {expression(depth)}"
        if kind < 0.3:
            return f"{left} IN ({right}, {expression(depth)})"
        if depth and kind < 0.4:
            return f"({condition(depth - 1)})"
        return f"{left} {rng.choice(['=', '<', '>=', '<>'])} {right}"

    def condition(depth: int) -> str:
        more = (
            f" {rng.choice(['AND', 'OR'])} {comparison(depth)}" for _ in range(rng.randint(0, 2))
        )
        return comparison(depth) + "".join(more)

    def select(depth: int) -> str:
        columns = ", ".join(
            expression(depth) + rng.choice(["", f" AS {_word(rng)}"])
            for _ in range(rng.randint(1, 4))
        )
        text = f"SELECT {columns} FROM {_word(rng)} AS {_word(rng)}"  # noqa: S608 - it is a text to be read
        for _ in range(rng.randint(0, 2)):
            text += f" INNER JOIN {_word(rng)} ON {condition(0)}"
        text += f" WHERE {condition(depth)}"
        if rng.random() < 0.3:
            text += f" GROUP BY {name()}, {name()} HAVING {condition(0)}"
        return text

    text = select(3)
    while len(text) < 3.3 * size:
        text += f" UNION ALL {select(3)}"
    return f"{text} ORDER BY {name()} DESC LIMIT 10"


def _python_expression(rng: random.Random, size: int) -> str:
    def primary(depth: int) -> str:
        kind = rng.random()
        if depth and kind < 0.15:
            given = ", ".join(operation(depth - 1) for _ in range(rng.randint(0, 3)))
            named = f"{', ' if given else ''}{_word(rng)}={operation(depth - 1)}"
            return f"{_word(rng)}({given}{rng.choice(['', named])})"
        if depth and kind < 0.25:
            return f"[{', '.join(operation(depth - 1) for _ in range(rng.randint(0, 4)))}]"
        if depth and kind < 0.32:
            pairs = (f"'{_word(rng)}': {operation(depth - 1)}" for _ in range(rng.randint(1, 3)))
            return f"{{{', '.join(pairs)}}}"
        if depth and kind < 0.38:
            return f"[{operation(depth - 1)} for {_word(rng)} in {_word(rng)} if {_word(rng)} > 1]"
        if depth and kind < 0.46:
            return f"({operation(depth - 1)} if {operation(depth - 1)} else {_word(rng)})"
        if kind < 0.55:
            return f"{_word(rng)}.{_word(rng)}[{_word(rng)}]"
        if kind < 0.8:
            return _word(rng)
        return _number(rng) if kind < 0.9 else f'"{_word(rng)} {_word(rng)}"'

    def operation(depth: int) -> str:
        signs = ["+", "-", "*", "//", "**", "and", "or", "==", "in", "<"]
        more = (f" {rng.choice(signs)} {primary(depth)}" for _ in range(rng.randint(0, 2)))
        return primary(depth) + "".join(more)

    items: list[str] = []
    while sum(map(len, items)) < 2.8 * size:
        items.append(operation(4))
    return f"[{', '.join(items)}]"


def _number(rng: random.Random) -> str:
    return str(rng.choice([rng.randint(0, 9999), round(rng.random() * 100, 3)]))


_RESERVED = {"as", "if", "in", "is", "or", "on", "by", "and", "for", "not", "all", "asc", "end"}
_RESERVED |= {"del", "def", "try", "else", "from", "join", "case", "null", "true", "none", "pass"}


def _word(rng: random.Random) -> str:
    if rng.random() < 0.7:
        return rng.choice(_WORDS)
    word = "".join(rng.choices(string.ascii_letters, k=rng.randint(1, 8)))
    return f"{word}_" if word.lower() in _RESERVED else word


WRITERS: dict[str, Callable[[random.Random, int], str]] = {
    "json": _json,
    "sql_select": _sql_select,
    "arithmetic": _arithmetic,
    "python_expression": _python_expression,
}
"""For each grammar, a function that writes a text of about this many tokens."""
