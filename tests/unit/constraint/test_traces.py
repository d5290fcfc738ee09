"""Traces: which tokens of an answer are forced, and which the model chooses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits, Matcher
from guided.errors import LimitExceededError, TokenRejectedError
from guided.machine.parts import RecognizerLimits
from guided.masks.mask import tokens_of
from guided.spec import Forcing, JsonSchema, TokenId
from tests.kit.tiny_vocabulary import tiny_vocabulary

_VOCABULARY = tiny_vocabulary()
_COMPILER = ConstraintCompiler(_VOCABULARY)


def _start(schema: Any) -> Matcher:
    return _COMPILER.start(JsonSchema(json.dumps(schema)))


def _trace(schema: Any, answer: str, forcing: Forcing) -> str:
    """The tokens of the answer, forced runs in brackets; every token is checked by its mask."""
    matcher = _start(schema)
    trace, left = [], answer.encode()
    while not matcher.is_complete and (left or not matcher.is_accepting):
        run = matcher.forced_run(forcing)
        tokens = run or _VOCABULARY.spell(left.decode())[:1]
        for token in tokens:
            assert token in tokens_of(matcher.mask())
            matcher = matcher.advance(TokenId(token))
        text = _VOCABULARY.decode([TokenId(t) for t in tokens])
        assert left.startswith(text), (left, text)
        left = left[len(text) :]
        pieces = "|".join(_VOCABULARY.decode([TokenId(token)]).decode() for token in tokens)
        trace.append(f"[{pieces}]" if run else pieces)
    assert not left
    return " ".join(trace)


_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "color": {"enum": ["red", "read"]},
    },
    "required": ["name", "color"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "answer", "forcing", "trace"),
    [
        # A run gives back bytes that a longer token could still replace: `"` could become `"a"`,
# and `re` could become `red"`; in the first case the tokenizer takes that one.
        (
            _PERSON,
            '{"name":"abc","color":"red"}',
            Forcing.CANONICAL,
            '[{"|name":] " abc [","|c|o|l|o|r|":"] red" [}]',
        ),
        (
            _PERSON,
            '{"name":"abc","color":"read"}',
            Forcing.CANONICAL,
            '[{"|name":] " abc [","|c|o|l|o|r|":"] r [e] a [d|"}]',
        ),
        (_PERSON, '{"name":"","color":"red"}', Forcing.OFF, '{" name": "" ," c o l o r ":" red" }'),
        ({"const": "abc"}, '"abc"', Forcing.CANONICAL, '["|abc|"]'),
        ({"enum": [True, None]}, "null", Forcing.CANONICAL, "null"),
        ({"enum": [True, None]}, "null", Forcing.STRICT, "null"),
        ({"const": 7}, "7", Forcing.STRICT, "[7]"),
        ({"type": "array", "items": {"const": 0}, "minItems": 1, "maxItems": 1}, "[0]",
         Forcing.STRICT, "[[|0|]]"),
        # é and è share their first byte: the run ends before it.
        ({"enum": ["é", "è"]}, '"é"', Forcing.CANONICAL, '["] é ["]'),
    ],
)  # fmt: skip
def test_traces(schema: Any, answer: str, forcing: Forcing, trace: str) -> None:
    assert _trace(schema, answer, forcing) == trace


def test_a_run_is_spelled_together_with_the_tokens_before_it() -> None:
    """After a lone quote the tokenizer would have taken `",`; after another token it still does."""
    schema = {
        "type": "array",
        "prefixItems": [{"enum": ["a", "b"]}, {"const": 1}],
        "items": False,
        "minItems": 2,
    }
    matcher = _start(schema)
    assert _VOCABULARY.decode(matcher.forced_run(Forcing.CANONICAL)) == b"["
    for token in _VOCABULARY.spell('["a'):
        matcher = matcher.advance(TokenId(token))
    assert _VOCABULARY.decode(matcher.forced_run(Forcing.CANONICAL)) == b'",1]'


def test_a_token_that_is_not_allowed_is_rejected_by_name() -> None:
    with pytest.raises(TokenRejectedError, match=r"token 98 \(b'a'\) is not allowed here"):
        _start({"type": "integer"}).advance(TokenId(98))
    with pytest.raises(TokenRejectedError, match=r"token 0 \(a special token\) is not allowed"):
        _start({"type": "integer"}).advance(TokenId(0))


def test_the_end_token_is_allowed_only_where_the_document_may_end() -> None:
    start = _start({"type": "integer"})
    assert 0 not in tokens_of(start.mask())
    number = start.advance(TokenId(1 + ord("1")))
    assert 0 in tokens_of(number.mask())
    assert number.is_accepting
    assert not number.is_complete


def test_without_a_constraint_every_token_that_stands_for_text_is_allowed() -> None:
    matcher = _COMPILER.start(None)
    assert tokens_of(matcher.mask()).tolist() == list(range(len(_VOCABULARY)))
    assert matcher.forced_run(Forcing.CANONICAL) == ()
    assert matcher.shortest_completion() == ()


def test_the_same_constraint_is_compiled_once() -> None:
    constraint = JsonSchema('{"type": "integer", "minimum": 3}')
    assert _COMPILER.compile(constraint) is _COMPILER.compile(JsonSchema(constraint.text))


def test_a_recogniser_that_is_full_refuses_masks_but_still_ends_the_answer() -> None:
    """Each additional name makes a stack of its own, so an answer hits a bound on them."""
    limits = ConstraintLimits(recognizer=RecognizerLimits(max_stacks=40))
    compiler = ConstraintCompiler(_VOCABULARY, limits)
    matcher = compiler.start(JsonSchema('{"type": "object", "additionalProperties": {}}'))
    is_full = False
    for byte in b"{" + b",".join(b'"%d":1' % number for number in range(100)):
        try:
            matcher.mask()
        except LimitExceededError as error:
            assert "40" in str(error)  # noqa: PT017 - the loop goes on
            is_full = True
            break
        matcher = matcher.advance(_VOCABULARY.byte_ids[byte])
    assert is_full
    ending = matcher.shortest_completion()
    for token in ending:
        matcher = matcher.advance(token)
    assert matcher.is_accepting


def test_new_answers_begin_on_a_new_recogniser_when_the_old_one_fills_up() -> None:
    """So a popular constraint never fails for good; a running answer keeps its recogniser."""
    limits = ConstraintLimits(recognizer=RecognizerLimits(max_stacks=100))
    compiler = ConstraintCompiler(_VOCABULARY, limits)
    constraint = JsonSchema('{"type": "object", "additionalProperties": {"type": "integer"}}')
    first = compiler.compile(constraint)
    for number in range(200):
        matcher = compiler.start(constraint)
        for byte in b'{"%d":1,"x%d":2}' % (number, number):
            matcher.mask()
            matcher = matcher.advance(_VOCABULARY.byte_ids[byte])
        assert matcher.is_complete
    assert compiler.compile(constraint) is not first


def test_closing_a_key_again_is_only_looked_at_inside_of_keys() -> None:
    """After the quote of a key, a token that begins like the rest of a taken key is allowed."""
    vocabulary = tiny_vocabulary([b':["'])
    compiler = ConstraintCompiler(vocabulary)
    lists = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "additionalProperties": lists}
    matcher = compiler.start(JsonSchema(json.dumps(schema)))
    for byte in b'{"a:[":[],"a"':
        matcher = matcher.advance(vocabulary.byte_ids[byte])
    assert 257 in tokens_of(matcher.mask())


def test_compiling_is_bounded_in_work() -> None:
    with pytest.raises(LimitExceededError, match=r"takes more than \d+ "):
        _start({"type": "string", "pattern": "^(a?){5000}$"})


def test_the_memory_of_masks_is_bounded() -> None:
    limits = ConstraintLimits(max_mask_bytes=10 * 4 * 10)
    compiler = ConstraintCompiler(_VOCABULARY, limits)
    matcher = compiler.start(JsonSchema('{"type": "string", "maxLength": 50}'))
    for character in '"' + "abcdefghij" * 4:
        matcher.mask()
        matcher = matcher.advance(_VOCABULARY.byte_ids[ord(character)])
        assert compiler._masks.nbytes <= limits.max_mask_bytes


def test_bytes_that_no_token_spells_are_never_needed() -> None:
    """A vocabulary without some bytes narrows texts; one that cannot spell the schema fails."""
    from guided.errors import UnsatisfiableError
    from guided.masks.vocabulary import Vocabulary

    full = tiny_vocabulary([])
    lacking = Vocabulary(
        tuple(None if text == b"\xf1" else text for text in full.token_bytes),
        full.end_ids,
        full.spell,
    )
    compiler = ConstraintCompiler(lacking)
    start = compiler.start(JsonSchema('{"type": "string"}'))
    inside = start.advance(lacking.byte_ids[ord('"')])
    assert set(tokens_of(inside.mask()).tolist()) >= {1 + 0xF0, 1 + 0xF3}
    assert 1 + 0xF1 not in tokens_of(inside.mask())
    with pytest.raises(UnsatisfiableError, match="bytes for which the model has no token"):
        compiler.start(JsonSchema(json.dumps({"const": "\U00050000"})))


def test_what_all_names_that_are_left_begin_with_is_forced() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"const": 0}, "b": {"const": 0}},
        "patternProperties": {"^kk[123]$": {"const": 0}},
        "additionalProperties": False,
        "required": ["a", "kk1"],
    }
    matcher = _start(schema)
    for token in _VOCABULARY.spell('{"a":0,"kk1":0,"'):
        matcher = matcher.advance(TokenId(token))
    assert _VOCABULARY.decode(matcher.forced_run(Forcing.CANONICAL)) == b"kk"
