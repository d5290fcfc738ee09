"""Context-free grammars over single letters written out as EBNF, in any of the ways there are."""

from __future__ import annotations

import random
from collections.abc import Mapping

from guided.grammar.context_free import Alternation, Body, Call, Concatenation, Repetition, Terminal
from tests.kit.grammars import spelled

__all__ = ["written"]

_BLANKS = [" ", "\n", "\t", '  # "a" | b\n', "\r\n"]


def written(rules: Mapping[str, Body], rng: random.Random) -> str:
    """The grammar's text."""
    lines = [
        f"{name}{_blank(rng)}::={_blank(rng)}{_body(body, rng)}" for name, body in rules.items()
    ]
    return "\n".join(lines)


def _blank(rng: random.Random) -> str:
    return rng.choice(_BLANKS)


def _body(body: Body, rng: random.Random) -> str:
    match body:
        case Call(rule):
            return rule
        case Concatenation(parts):
            return _blank(rng).join(_group(part, rng) for part in parts)
        case Alternation(options):
            return f"{_blank(rng)}|{_blank(rng)}".join(_body(option, rng) for option in options)
        case Repetition(item, low, high):
            return _group(item, rng) + _bounds(low, high, rng)
        case Terminal():
            text = spelled(body.regular)
        case _:
            raise AssertionError(f"EBNF has no {body}")
    if rng.random() < 0.3:
        return " ".join(f"[{letter}]" for letter in text)
    return '"' + "".join(rng.choice([letter, f"\\x{ord(letter):02x}"]) for letter in text) + '"'


def _group(body: Body, rng: random.Random) -> str:
    return f"({_blank(rng)}{_body(body, rng)})"


def _bounds(low: int, high: int | None, rng: random.Random) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (low, high) in signs and rng.random() < 0.5:
        return signs[low, high]
    if low == high and rng.random() < 0.5:
        return f"{{{low}}}"
    return f"{{{low},{'' if high is None else high}}}"
