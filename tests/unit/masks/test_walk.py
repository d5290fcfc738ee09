"""Walks over the trie, compared with trying every token byte by byte."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guided.constraint import ConstraintCompiler
from guided.machine.recognizer import State
from guided.machine.table import DEAD
from guided.masks.binding import TokenBinding
from guided.masks.compiled import CompiledConstraint
from guided.masks.held_mask import HeldMask
from guided.masks.independent import IndependentMask, IndependentMasks
from guided.masks.machine_kernels import loops_on
from guided.masks.mask import Mask, tokens_of
from guided.masks.mask_delta import MaskDelta
from guided.masks.mask_keys import row_traits
from guided.masks.walk import KeptWalk
from guided.masks.walker import Walker
from guided.spec import JsonOptions, JsonSchema, Spelling, TokenId
from tests.kit.cases import compiled
from tests.kit.effort import times
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary
from tests.kit.walks import tried

_LONG = (
    b"abcabcabc",
    b'a","a"',
    b'ab","ab',
    b'","',
    b'","a',
    b'"]',
    b'"],"',
    b"\xc3\xa9\xc3\xa9",
    b'"}]',
    b',"":',
    b"\n\n",
    b" \t \n",
    b' \n"a',
    b"\t,",
    b" }, ",
    b"\n[\n",
    b" 1",
)
_VOCABULARY = tiny_vocabulary([*JSON_PIECES, *_LONG])
_COMPILER = ConstraintCompiler(_VOCABULARY)

_FREE = JsonOptions(
    whitespace=None, spelling=Spelling.ANY, max_string_length=None, max_number_digits=None
)
_OPTIONS = {"compact": JsonOptions(), "one space": JsonOptions(whitespace=1), "free": _FREE}
_SHORT = {"type": "string", "minLength": 1, "maxLength": 3}
_MEMBERS = {
    "type": "object",
    "properties": {"ab": _SHORT, "name": {"type": "boolean"}, "red": {"enum": ["a", "ab"]}},
}
_NEEDY = {**_MEMBERS, "required": ["name"]}
_SCHEMAS: dict[str, Any] = {
    "anything": {},
    "bounded strings": {"type": "array", "items": _SHORT},
    "short strings": {"type": "array", "items": {"type": "string", "minLength": 2}},
    "strings of a pattern": {"type": "array", "items": {"type": "string", "pattern": "^[ab]+é?$"}},
    "strings that hold a match": {
        "type": "array",
        "items": {"pattern": "[ab]{2}c", "minLength": 1},
    },
    "unless excluded": {"type": "string", "not": {"enum": ["a", "ab"]}},
    "spelled and free names": {
        "type": "object",
        "properties": {"a": _SHORT, "ab": {"type": "integer"}},
        "additionalProperties": {"type": "boolean"},
    },
    "the same names in several stacks": {
        "type": "array",
        "prefixItems": [_MEMBERS, _NEEDY, {"type": "array", "items": _MEMBERS}],
        "items": {**_NEEDY, "additionalProperties": {"type": "null"}},
        "minItems": 2,
        "maxItems": 5,
    },
    "the same closed names in several stacks": {
        "type": "array",
        "prefixItems": [{**_MEMBERS, "additionalProperties": False}],
        "items": {**_NEEDY, "additionalProperties": False},
        "minItems": 2,
    },
    "few names": {"type": "object", "propertyNames": {"enum": ["a", "ab", "name"]}},
    "short names": {"type": "object", "propertyNames": {"maxLength": 2}, "minProperties": 2},
    "names of a pattern": {
        "type": "object",
        "patternProperties": {"^[ab]{1,2}$": {"type": "null"}},
        "additionalProperties": False,
    },
    "no string twice": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "no short string twice": {"type": "array", "items": _SHORT, "uniqueItems": True},
    "no choice twice": {
        "type": "array",
        "items": {"enum": ["a", "ab", "red"]},
        "uniqueItems": True,
        "minItems": 2,
    },
    "no number twice": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "no list twice": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "uniqueItems": True,
    },
    "three at least, none twice": {
        "type": "array",
        "items": {"type": "string"},
        "uniqueItems": True,
        "minItems": 3,
    },
}


def _compiled(schema: Any, options: JsonOptions) -> CompiledConstraint:
    return _COMPILER.compile(JsonSchema(json.dumps(schema), options))


def _fresh(schema: Any, options: JsonOptions) -> CompiledConstraint:
    """A recogniser without any known transition."""
    compiler = ConstraintCompiler(_VOCABULARY)
    return compiler.compile(JsonSchema(json.dumps(schema), options))


def _tried(compiled: CompiledConstraint, state: State) -> dict[int, State]:
    """Every token that may follow, with the state after it, by the exact steps of Python."""
    found = {}
    for token, text in enumerate(_VOCABULARY.token_bytes):
        reached = None if text is None else compiled.machine.advance(state, text)
        if reached is not None:
            found[token] = reached
    return found


@pytest.mark.parametrize("options", _OPTIONS.values(), ids=_OPTIONS)
@pytest.mark.parametrize("schema", _SCHEMAS.values(), ids=_SCHEMAS)
def test_masks_and_moves_equal_trying_every_token(schema: Any, options: JsonOptions) -> None:
    compiled = _compiled(schema, options)
    rng = random.Random(1)
    for _ in range(times(3)):
        matcher = compiled.start()
        for _ in range(12):
            tried = _tried(compiled, matcher.state)
            expected = {*tried, 0} if matcher.is_accepting else set(tried)
            assert set(tokens_of(matcher.mask()).tolist()) == expected, matcher.state
            if not tried:
                break
            pieces = [token for token in tried if token > 256]
            token = rng.choice(pieces if pieces and rng.random() < 0.6 else list(tried))
            matcher = matcher.advance(TokenId(token))
            assert matcher.state == tried[token]


def _walker_inside(schema: Any, text: bytes) -> tuple[Walker, State]:
    compiled = _compiled(schema, _FREE)
    state = compiled.machine.advance(compiled.machine.start, text)
    assert state is not None
    return compiled.walker, state


def test_a_row_loops_on_bytes_if_each_of_them_leads_it_to_itself() -> None:
    draw = random.Random(1)
    walker, _ = _walker_inside(_MEMBERS, b'{"ab')
    arrays, table = walker.packed.current(), walker.machine.parts.table
    num_loops = 0
    for row in range(table.num_rows):
        loops = [byte for byte in range(256) if table.step(row, byte) == row]
        num_loops += len(loops)
        for _ in range(20):
            bytes_ = draw.sample(loops, draw.randint(0, len(loops)))
            bytes_ += draw.sample(range(256), draw.choice([0, 0, 1]))
            # The lowest bit stands for NUL and for what is not ASCII.
            bits = sum({1 << byte if 0 < byte < 128 else 1 for byte in bytes_})
            line = np.array([bits & (1 << 64) - 1, bits >> 64], dtype=np.uint64)
            expected = all(0 < byte < 128 and byte in loops for byte in bytes_)
            assert loops_on(arrays, row, line) == expected, (row, bytes_)
    assert num_loops > 100


_LONG_NAME = "x" * 40


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("text", "is_local"),
    [
        (f'{{"{_LONG_NAME[:9]}', True),
        (f'{{"{_LONG_NAME}', False),  # the closing quote is not allowed everywhere
        ("", False),
    ],
)
def test_a_walk_that_stays_inside_a_name_is_local(free: bool, text: str, is_local: bool) -> None:
    schema = {"properties": {_LONG_NAME: {"type": "null"}}, "additionalProperties": free}
    walker, state = _walker_inside({"type": "object", **schema}, text.encode())
    overlaid_row = walker.keys.traits(state.row).overlaid_row
    assert (overlaid_row != DEAD) == (free and text != "")
    base = None
    if overlaid_row != DEAD:
        below = walker.walk(walker.machine.sharing.overlaid_state(state, overlaid_row))
        mask = below.mask.copy()
        mask.flags.writeable = False
        delta = MaskDelta(mask, np.empty((0, 2), dtype=np.int32))
        base = KeptWalk(HeldMask(delta), delta, below.uncertain)
    walk = walker.walk(state, base)
    if base is None:
        assert walk.is_stack_independent == is_local
    else:  # a correction holds for one stack, and there it changes nothing
        assert not walk.is_stack_independent
        assert (walk.mask.tolist() == base.delta.mask().tolist()) == is_local


def _digest(schema: Any, text: bytes) -> bytes | None:
    walker, state = _walker_inside(schema, text)
    outline = row_traits(walker.packed, state.row, walker.trie.longest).outline
    return None if outline is None else outline.digest


def test_strings_of_different_schemas_and_bounds_share_an_outline() -> None:
    bounded = _digest({"type": "string", "maxLength": 7}, b'"a')
    assert bounded is not None
    assert _digest({"type": "string", "minLength": 2, "maxLength": 90}, b'"xyz') == bounded
    inside = {"type": "object", "properties": {"b": {"type": "string", "maxLength": 8}}}
    assert _digest(inside, b'{"b":"c') == bounded


def test_outlines_tell_of_nothing_that_no_token_reaches() -> None:
    schema = {"type": "object", "patternProperties": {"^[!-z]{0,200}$": True}, "minProperties": 1}
    for kind, prefix in (
        ({"type": "string", "pattern": "^[!-z]{0,200}$"}, b'"'),
        ({**schema, "additionalProperties": False}, b'{"'),
    ):
        far = _digest(kind, prefix + b"x" * 5)
        assert far is not None
        assert _digest(kind, prefix + b"x" * 90) == far
        assert _digest(kind, prefix + b"x" * 199) != far


def test_rows_that_differ_have_different_outlines() -> None:
    plain = _digest({"type": "string"}, b'"a')
    assert plain is not None
    for schema, text in (
        ({"type": "string", "maxLength": 7}, b'"a'),  # counts
        ({"type": "string"}, b'"\\'),  # is inside of an escape: few bytes
        ({"type": "string", "pattern": "^[a-zA-Z0-9_]+$"}, b'"a'),  # lacks bytes
        ({"type": "string", "pattern": "a$"}, b'"a'),  # may end here only
    ):
        assert _digest(schema, text) != plain


def _independent_mask(schema: Any, text: bytes, masks: IndependentMasks) -> IndependentMask:
    walker, state = _walker_inside(schema, text)
    arrays = walker.packed.current()
    outline = row_traits(walker.packed, state.row, walker.trie.longest).outline
    assert outline is not None, schema
    return masks.get(arrays, state.row, outline)


_BEYOND = tiny_vocabulary(
    [
        *JSON_PIECES,
        *(letter * count for letter in (b"a", b"b ", b"-") for count in (9, 16, 17, 18, 40)),
        b"a" * 16 + b'"',
        b"a" * 17 + b'",',
        b"a" * 20 + b'":1',
        b"a b " * 8 + b'a"}',
        b"ab" * 8 + b"\xc3\xa9" * 4,
    ]
)
"""A vocabulary with tokens longer than the horizon of outlines."""
_WORDS = {"type": "string", "pattern": r"^(\S+ ){0,30}\S+$"}
_LONG_RUNS: dict[str, Any] = {
    "words": _WORDS,
    "words of so many letters": {**_WORDS, "maxLength": 70},
    "a word of so many letters": {"type": "string", "pattern": "^[a-zA-Z]{30,50}$"},
    "so many letters and a pattern": {
        "type": "string",
        "pattern": "^[a-zA-Z ]{0,40}-?$",
        "minLength": 35,
        "maxLength": 38,
    },
    "any but one text": {"type": "string", "minLength": 37, "not": {"const": "a" * 44}},
    "any names but one": {
        "patternProperties": {"^(?!a{44}$)[ -~]*$": {"const": 1}},
        "additionalProperties": False,
    },
    "a name": {"patternProperties": {"^[a-zA-Z]{0,40}$": {}}, "additionalProperties": False},
    "one of two names": {"patternProperties": {"^[a-zA-Z]{20,40}$": {"const": 1}, "^b{36}$": {}}},
    "a name unless it is known": {
        "properties": {"a" * 19: False, "a" * 40: {"const": 2}},
        "patternProperties": {"^[a-zA-Z]{0,43}$": {"const": 1}},
    },
}


@pytest.mark.parametrize("schema", _LONG_RUNS.values(), ids=_LONG_RUNS)
def test_tokens_longer_than_an_outline_follow_where_the_whole_row_takes_them(schema: Any) -> None:
    is_string = schema.get("type") == "string"
    start = compiled(
        {"type": "string" if is_string else "object", **schema}, _FREE, _BEYOND
    ).start()
    for unit in (b"a", b"b", b"a "):
        matcher = start
        for byte in (b'"' if is_string else b'{"') + unit * 45:
            allowed = set(tokens_of(matcher.mask()).tolist()) - {0}
            assert allowed == set(tried(matcher, range(1, len(_BEYOND)))), matcher.state
            if byte + 1 not in allowed:
                break
            matcher = matcher.advance(TokenId(byte + 1))


def test_rows_that_differ_beyond_the_horizon_have_the_same_outline() -> None:
    for schema in (_WORDS, {**_WORDS, "maxLength": 70}):
        walker = compiled(schema, _FREE, _BEYOND).walker
        machine, outlines = walker.machine, []
        for words in (3, 9, 29):
            state = machine.advance(machine.start, b'"' + b"a " * words)
            assert state is not None
            outline = row_traits(walker.packed, state.row, walker.trie.longest).outline
            assert outline is not None
            outlines.append(outline)
        far, near, last = outlines
        assert far.horizon < walker.trie.longest
        assert far.digest == near.digest != last.digest


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"maxLength": 290}, (0, 30, 40)),  # a token of 300 letters never fits
        ({"pattern": "^[^y]*(y[a-z]{300})?$", "maxLength": 310}, (0, 9, 10, 40, 60)),
    ],
)
def test_more_than_a_byte_of_code_points_are_counted(schema: Any, written: Sequence[int]) -> None:
    vocabulary = tiny_vocabulary([b"ya", b"yy", b'y"', b"a" * 300])
    start = compiled({"type": "string", **schema}, _FREE, vocabulary).start()
    for count in written:
        matcher = start
        for byte in b'"' + b"b" * count:
            matcher = matcher.advance(TokenId(byte + 1))
        allowed = set(tokens_of(matcher.mask()).tolist())
        assert allowed - {0} == set(tried(matcher, range(1, len(vocabulary))))


class _Noting(dict[int, Mask]):
    """Records what others would read from the moment that a mask is there."""

    def __init__(self) -> None:
        self.seen: dict[int, list[int]] = {}

    def __setitem__(self, left: int, mask: Mask) -> None:
        super().__setitem__(left, mask)
        self.seen[left] = mask.tolist()


def test_a_token_of_very_many_strings_is_walked_to_its_end() -> None:
    """Each string in it is walked by itself."""
    strings = b'a","' * 400
    vocabulary = tiny_vocabulary([*JSON_PIECES, strings, strings + b"1"])
    schema = {"type": "array", "items": {"type": "string"}}
    start = ConstraintCompiler(vocabulary).start(JsonSchema(json.dumps(schema)))
    for byte in b'["':
        start = start.advance(vocabulary.byte_ids[byte])
    longest = [vocabulary.token_bytes.index(token) for token in (strings, strings + b"1")]
    assert [start.allows(TokenId(token)) for token in longest] == [True, True]
    numbers = ConstraintCompiler(vocabulary).start(JsonSchema('{"type": "string"}'))
    assert not numbers.advance(vocabulary.byte_ids[ord('"')]).allows(TokenId(longest[0]))


def test_a_mask_near_the_bound_is_there_for_other_threads_when_it_is_filled() -> None:
    schema = {"type": "string", "maxLength": 7}
    within = _Noting()
    mask = _independent_mask(schema, b'"', TokenBinding.of(_VOCABULARY).independent)
    mask = IndependentMask(mask.mask, mask.min_counts, mask.sites, mask.max_count, within)
    found = {left: mask.mask_within(left).tolist() for left in range(mask.max_count)}
    assert len(found) > 3
    assert within.seen == found


def test_a_number_has_no_outline() -> None:
    assert _digest({"type": "integer"}, b"1") is None


_TWO_LETTERS = {"propertyNames": {"pattern": "^[ab]{2}$"}}
_LONG_NAMES = {"propertyNames": {"pattern": "^[ab]{20}$"}}
_ANY_NAMES = {"additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "text", "certain"),
    [
        (_LONG_NAMES, b'{"', True),
        (_TWO_LETTERS, b'{"', False),  # a token may write one of the few names
        (_ANY_NAMES, b'{"long":1,"longer":2', True),
        (_ANY_NAMES, b'{"b":1,"":2', False),  # there are tokens that write an empty name again
    ],
)
def test_a_walk_is_certain_where_names_cannot_run_out_or_stand_twice(
    schema: Any, text: bytes, certain: bool
) -> None:
    walker, state = _walker_inside(schema, text)
    assert (len(walker.walk(state).uncertain) == 0) == certain


def test_a_name_that_leaves_the_free_ones_keeps_its_text_in_the_state() -> None:
    schema = {
        "properties": {"c": False},
        "patternProperties": {"^a": {}},
        "additionalProperties": False,
    }
    compiled = _compiled(schema, _FREE)
    state = compiled.machine.advance(compiled.machine.start, b'{"')
    assert state is not None
    for token, text in enumerate(_VOCABULARY.token_bytes):
        if text is not None:
            reached = compiled.steps.advance(state, token)
            assert reached == compiled.machine.advance(state, text)


def test_near_its_bound_a_string_allows_only_tokens_that_fit() -> None:
    compiled = _compiled({"type": "string", "maxLength": 9}, _FREE)
    nine = next(t for t, text in enumerate(_VOCABULARY.token_bytes) if text == b"abcabcabc")
    for written in range(11):
        state = compiled.machine.advance(compiled.machine.start, b'"' + b"x" * written)
        if written > 9:
            assert state is None
            continue
        assert state is not None
        mask = compiled.mask(compiled.position(state)).mask()
        assert (nine in tokens_of(mask)) == (written == 0)
