"""Strings under a pattern and a length, compared with all strings that ``re`` matches.

The alphabet has characters of every number of bytes, escaped ones too, so that the end with the
fewest bytes often does not have the fewest characters, which lengths count.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from guided.constraint import ConstraintCompiler
from guided.errors import UnsatisfiableError
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import Forcing, JsonOptions, JsonSchema, TokenId
from tests.kit.effort import first_seed, times
from tests.kit.walks import END, PIECES

_LETTERS: Final = 'abé€😀"'
_LONGEST: Final = 4
_STRINGS: Final = tuple(
    "".join(letters)
    for length in range(_LONGEST + 1)
    for letters in itertools.product(_LETTERS, repeat=length)
)
_TOKENS: Final = range(1, len(PIECES.token_bytes))
_BUDGETS: Final = (0, 1, 2, 5)
"""Tokens in addition to those of the shortest end."""


def _pattern(rng: random.Random, depth: int = 3) -> str:
    kind = rng.randrange(6 if depth else 1)
    if kind < 2:
        return "".join(rng.choice(_LETTERS) for _ in range(rng.randrange(1, 4)))
    if kind == 2:
        return f"[{'^' * rng.randrange(2)}{''.join(rng.sample(_LETTERS, rng.randrange(1, 4)))}]"
    parts = [_pattern(rng, depth - 1) for _ in range(rng.randrange(2, 4))]
    if kind == 3:
        return "".join(parts)
    if kind == 4:
        return f"({'|'.join(parts)})"
    return f"({parts[0]}){rng.choice(['*', '+', '?', '{2}', '{3}', '{0,2}', '{2,}'])}"


class _Case:
    """A pattern, a length, perhaps listed strings as well; and the strings that fit."""

    def __init__(self, rng: random.Random, least: int, most: int) -> None:
        alphabet = f"[{_LETTERS}]*"
        self.written = _pattern(rng)
        self.low, self.high = rng.choice([0, 0, 1, 2, 3]), rng.randint(least, most)
        matched = re.compile(self.written)
        self.texts = [
            text
            for text in _STRINGS
            if self.low <= len(text) <= self.high and matched.fullmatch(text)
        ]
        # Classes that are negated match other letters, too: these are not enumerated.
        self.asked: dict[str, Any] = {
            "allOf": [{"pattern": f"^({self.written})$"}, {"pattern": f"^{alphabet}$"}],
            "minLength": self.low,
        }

    @property
    def bounded(self) -> dict[str, Any]:
        """The keywords of the string, the greatest length included."""
        return {**self.asked, "maxLength": self.high}

    def banned(self, rng: random.Random) -> list[str]:
        """Some of the strings that fit, most of them short."""
        few = self.texts[: rng.randrange(1, 12)]
        return rng.sample(few, min(len(few), rng.randrange(1, 6)))


_Place = Callable[[random.Random, _Case], tuple[Any, Iterable[str]]]


def _value(_: random.Random, case: _Case) -> tuple[Any, Iterable[str]]:
    return {"type": "string", **case.bounded}, map(_written, case.texts)


def _value_not_listed(rng: random.Random, case: _Case) -> tuple[Any, Iterable[str]]:
    banned = case.banned(rng)
    schema = {"type": "string", **case.bounded, "not": {"enum": banned}} if banned else False
    return schema, [_written(text) for text in case.texts if text not in banned and banned]


def _value_or_listed(rng: random.Random, case: _Case) -> tuple[Any, Iterable[str]]:
    banned, listed = case.banned(rng), rng.sample(_STRINGS, 2)
    free: Any = {"type": "string", **case.bounded, "not": {"enum": [*banned, "?"]}}
    texts = {*case.texts} - {*banned} | {*listed}
    return {"anyOf": [{"enum": listed}, free]}, map(_written, texts)


def _items(_: random.Random, case: _Case) -> tuple[Any, Iterable[str]]:
    """Two formulas are asked of the item: where the second fits, a number must follow."""
    first = {"type": "string", **case.bounded}
    schema = {"prefixItems": [first], "items": {"const": 0}, "maxItems": 2}
    also = {"if": {"prefixItems": [{"pattern": "a"}]}, "then": {"minItems": 2}}
    texts = [(text, _written(text)) for text in case.texts]
    documents = [f"[{text},0]" for _, text in texts]
    documents += [f"[{text}]" for plain, text in texts if "a" not in plain]
    return {"type": "array", "minItems": 1, **schema, **also}, documents


def _name(rng: random.Random, case: _Case) -> tuple[Any, Iterable[str]]:
    schema = {"type": "object", "minProperties": 1, "maxProperties": 1}
    documents = [f"{{{_written(text)}:0}}" for text in case.texts]
    if rng.random() < 0.5:
        named = {"propertyNames": case.bounded, "additionalProperties": {"const": 0}}
        return {**schema, **named}, documents
    bounds = {"minLength": case.low, "maxLength": case.high}
    pattern = f"^(?=[{_LETTERS}]*$)({case.written})$"
    matched = {"patternProperties": {pattern: {"const": 0}}, "additionalProperties": False}
    return {**schema, **matched, "propertyNames": bounds}, documents


def _written(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _start(schema: Any, options: JsonOptions | None = None) -> Matcher:
    constraint = JsonSchema(json.dumps(schema), options or JsonOptions())
    return ConstraintCompiler(PIECES).start(constraint)


def _assert_within(matcher: Matcher, allowed: set[int], rng: random.Random) -> None:
    """Masks within a budget leave tokens out only because of it, and allow only what fits it."""
    least = len(matcher.shortest_completion())
    for budget in (least + more for more in _BUDGETS):
        within = set(tokens_of(matcher.mask_within(budget)).tolist())
        assert within <= allowed
        assert (END in within) == matcher.is_accepting
        if budget:
            assert within
        for token in rng.sample(sorted(within - {END}), min(4, len(within - {END}))):
            assert matcher.advance(TokenId(token)).can_complete_within(budget - 1)


def _assert_walk(start: Matcher, documents: set[bytes], rng: random.Random) -> None:
    """Along a random walk everything agrees with the documents that may still follow."""
    begun = {document[:end] for document in documents for end in range(len(document) + 1)}
    matcher, text = start, b""
    while True:
        spelled = {token: text + PIECES.decode([TokenId(token)]) for token in _TOKENS}
        expected = {token for token, behind in spelled.items() if behind in begun}
        expected |= {END} if text in documents else set()
        allowed = set(tokens_of(matcher.mask()).tolist())
        assert allowed == expected, text
        assert text + PIECES.decode(matcher.shortest_completion()) in documents, text
        for forcing in (Forcing.STRICT, Forcing.CANONICAL):
            forced = text + PIECES.decode(matcher.forced_run(forcing))
            assert all(each.startswith(forced) for each in documents if each.startswith(text))
        _assert_within(matcher, allowed, rng)
        token = rng.choice(sorted(allowed))
        if token == END:
            return
        matcher, text = matcher.advance(TokenId(token)), spelled[token]


@pytest.mark.parametrize(
    "place", [_value, _value_not_listed, _value_or_listed, _items, _name], ids=lambda f: f.__name__
)
def test_masks_and_ends_are_those_of_the_strings_that_fit(place: _Place) -> None:
    satisfiable = 0
    first = first_seed()
    for seed in range(first, first + times(50)):
        rng = random.Random(seed)
        schema, written = place(rng, _Case(rng, 1, _LONGEST))
        documents = {text.encode() for text in written}
        try:
            start = _start(schema)
        except UnsatisfiableError:
            assert not documents, (seed, schema)
            continue
        assert documents, (seed, schema)
        satisfiable += 1
        for _ in range(3):
            _assert_walk(start, documents, rng)
    assert satisfiable > times(50) / 10


def test_a_bound_of_the_options_leaves_no_dead_end() -> None:
    """Such a bound may forbid more than texts that are too long, and yields to required ones."""
    first = first_seed()
    for seed in range(first, first + times(40)):
        rng = random.Random(seed)
        case = _Case(rng, _LONGEST, _LONGEST)
        banned = case.banned(rng) if rng.random() < 0.5 else []
        schema = {"type": "string", **case.asked, "not": {"enum": [*banned, "?"]}}
        try:
            start = _start(schema, JsonOptions(max_string_length=rng.randrange(1, 6)))
        except UnsatisfiableError:
            assert not {*case.texts} - {*banned}, (seed, schema)
            continue
        for _ in range(3):
            matcher, text = start, b""
            while not matcher.is_complete:
                allowed = set(tokens_of(matcher.mask()).tolist())
                whole = json.loads(text + PIECES.decode(matcher.shortest_completion()))
                assert re.fullmatch(case.written, whole), (seed, schema, whole)
                assert len(whole) >= case.low
                assert whole not in banned, (seed, schema, whole)
                _assert_within(matcher, allowed, rng)
                token = rng.choice(sorted(allowed))
                text += PIECES.decode([TokenId(token)])
                matcher = matcher.advance(TokenId(token))
