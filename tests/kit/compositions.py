"""Random constraints made of constraints, and all of their texts, without any automaton."""

from __future__ import annotations

import json
import random
from typing import TypeAlias

from guided.spec import Choice, Ebnf, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import AnyOf, Repeat, Sequence, Template, Text

__all__ = ["Language", "random_composition"]

Language: TypeAlias = tuple[Structure, frozenset[str]]
"""A constraint, and all of its texts."""


def _schema(schema: object, *texts: str) -> Language:
    return JsonSchema(json.dumps(schema)), frozenset(texts)


_CLOSED = {"type": "object", "additionalProperties": False}
_LETTERS = {"type": "string", "pattern": "^[ab]{0,2}$"}
_SPELLED = ('""', *(f'"{x}{y}"' for x in "ab" for y in ["", *"ab"]))
_LEAVES: tuple[Language, ...] = (
    # Numbers, some of which are beginnings of others.
    _schema({"type": "integer", "minimum": 0, "maximum": 12}, *map(str, range(13))),
    _schema({"enum": [1, 10, 110]}, "1", "10", "110"),
    _schema({"enum": [-1, "a", "ab", 1]}, "-1", '"a"', '"ab"', "1"),
    _schema({"enum": [0, 0.5, 1]}, "0", "0.5", "1"),
    # Strings with counts, containers, names that must not repeat.
    _schema(
        {"type": "string", "pattern": "^[ab]{1,2}$"},
        *(f'"{x}{y}"' for x in "ab" for y in ["", *"ab"]),
    ),
    _schema(
        {"type": "array", "items": {"enum": [1, 11]}, "maxItems": 2},
        "[]",
        *(f"[{x}]" for x in (1, 11)),
        *(f"[{x},{y}]" for x in (1, 11) for y in (1, 11)),
    ),
    _schema(
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        "[]",
        '["a"]',
        '["b"]',
        '["a","b"]',
        '["b","a"]',
    ),
    _schema(
        {**_CLOSED, "properties": {"a": {"enum": [1, 11]}, "ab": {"const": "a"}}},
        "{}",
        '{"a":1}',
        '{"a":11}',
        '{"ab":"a"}',
        '{"a":1,"ab":"a"}',
        '{"a":11,"ab":"a"}',
    ),
    _schema(
        {
            "type": "object",
            "patternProperties": {"^[ab]$": {"const": 1}},
            "additionalProperties": False,
        },
        "{}",
        '{"a":1}',
        '{"b":1}',
        '{"a":1,"b":1}',
        '{"b":1,"a":1}',
    ),
    # Objects that begin alike.
    _schema(
        {**_CLOSED, "properties": {"a": _LETTERS, "b": {"const": 1}}, "required": ["a"]},
        *(f'{{"a":{a}{b}}}' for a in _SPELLED for b in ("", ',"b":1')),
    ),
    _schema(
        {**_CLOSED, "properties": {"a": _LETTERS, "b": {"const": 2}}, "required": ["a", "b"]},
        *(f'{{"a":{a},"b":2}}' for a in _SPELLED),
    ),
    # Grammars, patterns and texts.
    (Regex("a?b*?(?<!bbb)"), frozenset(a + "b" * n for a in ("", "a") for n in range(3))),
    (Choice(["", "{", '{"a', '"a"', "0", "10"]), frozenset(["", "{", '{"a', '"a"', "0", "10"])),
    (Ebnf('root ::= "1" | "[" "1"{1,2} "]"'), frozenset(["1", "[1]", "[11]"])),
    (Lark('start: "a" ("b" | "1")'), frozenset(["ab", "a1"])),
    *(
        (Text(text), frozenset([text]))
        for text in ("a", "1", "0", '"', ",", "{", "}", "5", '{"a":', "")
    ),
)
_MOST = 400


def random_composition(rng: random.Random, depth: int = 3) -> Language:
    """A constraint of at most ``depth`` levels, whose language is finite and small."""
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice(_LEAVES)
    if kind < 0.5:
        return _sequence([random_composition(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))])
    if kind < 0.8:
        options = [random_composition(rng, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
        texts = frozenset().union(*(texts for _, texts in options))
        return AnyOf([option for option, _ in options]), texts
    part, texts = random_composition(rng, depth - 1)
    if kind < 0.9:
        least = rng.randint(0, 2)
        most = least + rng.randint(0, 1)
        found = _repeated(texts, least, most)
        return (part, texts) if found is None else (Repeat(part, least, most), found)
    if kind < 0.95:
        found = _joined([texts, texts])
        lark = Lark('start: a a | "1" a\na: A\n%declare A', holes={"A": part})
        return (part, texts) if found is None else (lark, found | {"1" + text for text in texts})
    found = _joined([frozenset(["1{"]), texts, frozenset(["}"]), texts])
    if found is None:
        return part, texts
    return Template("1{{{hole}}}{hole}", hole=part), found


def _sequence(parts: list[Language]) -> Language:
    while (found := _joined([texts for _, texts in parts])) is None:
        parts = parts[:-1]
    return Sequence([part for part, _ in parts]), found


def _repeated(texts: frozenset[str], least: int, most: int) -> frozenset[str] | None:
    found: set[str] = set()
    for count in range(least, most + 1):
        joined = _joined([texts] * count)
        if joined is None:
            return None
        found |= joined
    return frozenset(found)


def _joined(languages: list[frozenset[str]]) -> frozenset[str] | None:
    """Concatenations of one text of each; ``None`` if there are very many."""
    found = frozenset([""])
    for texts in languages:
        if len(found) * len(texts) > _MOST and len(languages) > 1:
            return None
        found = frozenset(a + b for a in found for b in texts)
    return found
