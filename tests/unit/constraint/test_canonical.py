"""Forced runs on real tokenizers: every token of a run is the one the tokenizer itself takes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, Matcher
from guided.spec import Forcing, JsonSchema, TokenId
from tests.kit.schemas import compact
from tests.kit.tokenizers import TOKENIZERS, real_tokenizer, real_vocabulary

_NAMES = ["id", "user_name", "lastName", "e-mail", "$ref", "x-y-z", "2fa", "städte", "名前", "a b"]
_CHOICES = ["red", "read", "IN_PROGRESS", "v1.2.3", "", "Zürich", "北京", "don't", "N/A", '"']
_TEXTS = [
    *("", "ok", "Ada Lovelace", "  lead", "12345", 'it\'s 5" wide', "a\nb", "C:\\dir", "http://a.b/?c=d"),
    *("naïve – dash", "😀 ok", '{}[]":,', "]", "}", ": ", ", x", '"q"'),
]  # fmt: skip

_Drawn = tuple[Any, Callable[[], Any]]
"""A schema, and a function that draws a value that satisfies it."""


def _scalar(rng: random.Random) -> _Drawn:
    chosen = rng.sample(_CHOICES, rng.randint(1, 4))
    return rng.choice(
        [
            ({"type": "string"}, lambda: rng.choice(_TEXTS)),
            ({"enum": chosen}, lambda: rng.choice(chosen)),
            ({"type": "integer"}, lambda: rng.choice([0, 7, -3, 1999])),
            ({"type": "boolean"}, lambda: rng.random() < 0.5),
            ({"type": ["number", "null"]}, lambda: rng.choice([None, 19.99, -2])),
            ({"type": "string", "pattern": "^INV-[0-9]{2}$"}, lambda: f"INV-{rng.randint(10, 99)}"),
        ]
    )


def _value(rng: random.Random, depth: int) -> _Drawn:
    kind = rng.choice(["scalar", "scalar", "list", "object"]) if depth else "scalar"
    if kind == "scalar":
        return _scalar(rng)
    if kind == "list":
        items, draw = _value(rng, depth - 1)
        return {"type": "array", "items": items}, lambda: [draw() for _ in range(rng.randint(0, 3))]
    return _object(rng, depth - 1)


def _object(rng: random.Random, depth: int) -> _Drawn:
    parts = {name: _value(rng, depth) for name in rng.sample(_NAMES, rng.randint(1, 4))}
    required = [name for name in parts if rng.random() < 0.7]
    schema = {
        "type": "object",
        "properties": {name: part[0] for name, part in parts.items()},
        "required": required,
        "additionalProperties": rng.random() < 0.3,
    }
    return schema, lambda: {
        name: draw() for name, (_, draw) in parts.items() if name in required or rng.random() < 0.5
    }


def _forced(start: Matcher, tokens: list[TokenId]) -> int:
    """Follow the answer, check every run against it, and count the forced tokens."""
    matcher, position, forced = start, 0, 0
    while position < len(tokens):
        run = matcher.forced_run(Forcing.CANONICAL)
        assert list(run) == tokens[position : position + len(run)]
        for token in run or tokens[position : position + 1]:
            matcher = matcher.advance(token)
            position += 1
        forced += len(run)
    assert matcher.is_accepting
    return forced


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_forced_token_is_the_tokenizers_own(name: str) -> None:
    """Over random schemas, and documents full of what tokenizers join: empty strings, quotes."""
    compiler = ConstraintCompiler(real_vocabulary(name))
    rng = random.Random(7)
    total = forced = 0
    for _ in range(25):
        schema, draw = _object(rng, 2)
        start = compiler.start(JsonSchema(json.dumps(schema, ensure_ascii=False)))
        for _ in range(3):
            text = compact(draw()).decode()
            tokens = real_tokenizer(name).encode(text, add_special_tokens=False)
            if name == "llama2":  # puts a dummy space before every text, which an answer has not
                tokens = list(real_vocabulary(name).spell(text))
            forced += _forced(start, [TokenId(token) for token in tokens])
            total += len(tokens)
    assert forced > 0.2 * total
