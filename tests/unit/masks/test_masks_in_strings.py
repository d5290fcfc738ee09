"""Masks within strings compared with trying every token, of texts of all kinds of characters."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import JsonOptions, JsonSchema, Spelling, TokenId
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary
from tests.kit.walks import tried

_CHARACTERS = (
    "a",
    "b",
    "1",
    " ",
    "\x7f",
    "é",
    "٣",
    "\u2028",
    "語",
    "\ud7ff",
    "\ue000",
    "🐈",
    "\U0010ffff",
)
_ILL_FORMED = (
    b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
    b"\xff", b"a\x80", b"\xe8\xaaa", b"\x00", b"a\x00", b"\x01a",
)  # fmt: skip


def _pieces() -> Iterator[bytes]:
    """Characters side by side, whole and cut off at both ends, and texts that are not UTF-8."""
    for pair in itertools.product(_CHARACTERS, repeat=2):
        text = "".join(pair).encode()
        yield text
        yield text + b"ab"
        yield from (text[:-1], text[1:], text[1:-1])
    for text in _ILL_FORMED:
        yield from (text, b"ab" + text, text + b"ab", b'"' + text)


_VOCABULARY = tiny_vocabulary([*JSON_PIECES, *sorted(set(_pieces()) - {b""} - set(JSON_PIECES))])
_COMPILER = ConstraintCompiler(_VOCABULARY)
_OPTIONS = JsonOptions(spelling=Spelling.ANY, max_string_length=None)
_STRINGS: dict[str, dict[str, Any]] = {
    "any": {},
    "at least two": {"minLength": 2},
    "at most three": {"maxLength": 3},
    "two to four": {"minLength": 2, "maxLength": 4},
    "a match anywhere": {"pattern": "ab1"},
    "a match anywhere, counted": {"pattern": "a+1", "minLength": 3, "maxLength": 5},
    "either of two": {"pattern": "^ab|1ba$"},
    "no line ends": {"pattern": "^.*$"},
    "no white space": {"pattern": "^\\S+$"},
    "letters": {"pattern": "^\\p{L}+$"},
    "not one character": {"pattern": "^[^é]*$"},
    "many in a row": {"pattern": "^(a{20})*[ab語]{3,}$"},
}


@pytest.mark.parametrize("string", _STRINGS.values(), ids=_STRINGS)
def test_masks_within_strings_equal_trying_every_token(string: dict[str, Any]) -> None:
    schema = json.dumps({"type": "string", **string})
    compiled = _COMPILER.compile(JsonSchema(schema, _OPTIONS))
    rng = random.Random(1)
    for _ in range(6):
        matcher: Matcher = compiled.start()
        for _ in range(8):
            taken = tried(matcher, range(1, len(_VOCABULARY)))
            assert set(tokens_of(matcher.mask()).tolist()) - {0} == set(taken)
            if not taken:
                break
            matcher = taken[TokenId(rng.choice(list(taken)))]
