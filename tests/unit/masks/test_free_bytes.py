"""Subtrees of the trie that are taken whole: their masks compared with trying every token."""

from __future__ import annotations

import codecs
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.constraint import ConstraintCompiler
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.masks.trie import CHARACTERS, trie_from_tokens
from guided.masks.utf8_steps import BOUNDARY, ILL_FORMED, NUM_STATES, utf8_step
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


@given(st.lists(st.none() | st.binary(min_size=1, max_size=5), max_size=40))
def test_every_node_knows_the_characters_below_it(tokens: list[bytes | None]) -> None:
    trie = trie_from_tokens(tokens)
    for node in range(len(trie)):
        prefix = trie.nodes[node, 1]
        endings = [tokens[token][prefix:] for token in trie.tokens_below(node).tolist()]
        word = int(trie.bytes_below[node, 2])
        assert bool(word & CHARACTERS) == any(not ending.isascii() for ending in endings)
        assert (word & ~CHARACTERS == 0) == all(map(_is_begun_text, endings))
    spelled = [tokens[token] or b"" for token in trie.token_ids.tolist()]
    num_characters = [sum(byte & 0xC0 != 0x80 for byte in text) for text in spelled]
    assert trie.characters.tolist() == num_characters


def _is_begun_text(text: bytes) -> bool:
    """Whether bytes are UTF-8, except for an incomplete character at the end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return False
    return True


@given(st.binary(max_size=6) | st.text(max_size=3).map(str.encode))
def test_utf8_steps_as_the_codec_does(text: bytes) -> None:
    state = BOUNDARY
    for byte in text:
        state = utf8_step(state, byte)
        if state == ILL_FORMED:
            break
        assert state in range(NUM_STATES)
    assert (state != ILL_FORMED) == _is_begun_text(text)
    if state == BOUNDARY:
        text.decode()
