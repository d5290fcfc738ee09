"""Token healing: which tokens are taken off a prompt, and what may be written in their place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.constraint import ConstraintCompiler
from guided.errors import RequestError, TokenRejectedError
from guided.masks.healing import HealingMatcher, OpenEnds
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import Choice, Constraint, Forcing, JsonSchema, Regex, TokenId
from guided.spec.composition import Sequence, Text
from guided.spec.continued import Continued
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    WordMatcher,
    make_vocabulary,
    spell_bytes,
)
from tests.kit.built_tokenizers import BUILT, built_vocabulary
from tests.kit.effort import times

VOCABULARY = make_vocabulary()
NAMED = JsonSchema(
    '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],'
    ' "additionalProperties": false}'
)


@cache
def compiler() -> ConstraintCompiler:
    return ConstraintCompiler(VOCABULARY)


def ids(*texts: str) -> tuple[TokenId, ...]:
    return tuple(TokenId(TOKEN_BYTES.index(text.encode())) for text in texts)


@pytest.mark.parametrize(
    ("tokens", "text", "expected"),
    [
        (ids("x", "a"), "xa", 1),  # ab, abc
        (ids("x", "ab"), "xab", 1),  # abc
        (ids("x", "a", "b"), "xab", 2),  # abc begins with both
        (ids("x", "a", "b", "c"), "xabc", 1),  # cd; no token begins with abc and is longer
        (ids("x", "cd"), "xcd", 1),  # cdna
        (ids("x", "cd", "n"), "xcdn", 2),
        (ids("x", "cdna"), "xcdna", 0),
        (ids("x", "z"), "xz", 0),
        (ids("x", "{"), "x{", 1),
        # The first token stays: the model has to read one.
        (ids("a"), "a", 0),
        (ids("a", "b"), "ab", 1),
        # What the tokens spell has to be the end of the text.
        (ids("x", "a"), "xA", 0),
        (ids("x", "a", "b"), "b", 1),
        (ids("x", "a"), "", 0),
        # A special token ends the text before it.
        ((*ids("x"), TokenId(0)), "x", 0),
        ((*ids("a"), TokenId(0), *ids("b")), "ab", 1),
        ((), "", 0),
    ],
)
def test_as_many_tokens_are_open_as_a_longer_one_begins_with(
    tokens: tuple[TokenId, ...], text: str, expected: int
) -> None:
    assert OpenEnds(VOCABULARY).count(tokens, text) == expected


@pytest.mark.parametrize("name", [name for name in BUILT if "unigram" not in name])
@settings(max_examples=times(20))
@given(text=st.text(st.sampled_from('the nam{":1北é😀 \n'), min_size=1, max_size=12))
def test_open_tokens_are_an_end_of_the_text_in_whole_characters(name: str, text: str) -> None:
    vocabulary = built_vocabulary(name)
    ends = OpenEnds(vocabulary)
    try:
        tokens = tuple(map(TokenId, vocabulary.spell(text)))
    except ValueError:
        return
    count = ends.count(tokens, text)
    spelled = vocabulary.token_bytes
    for longer in range(1, len(tokens)):
        end = b"".join(spelled[token] or b"" for token in tokens[-longer:])
        is_open = any(each and each != end and each.startswith(end) for each in spelled)
        if longer == count:
            assert is_open
            assert text.endswith(end.decode())
            assert ends.text_of(tokens[-longer:]) == end.decode()
        elif longer > count and text.encode().endswith(end):
            assert not is_open or end[0] & 0xC0 == 0x80


WORDS = st.lists(st.text('abcdnme{":', min_size=1, max_size=7), min_size=1, max_size=6)


def positions(
    matcher: Matcher, oracle: WordMatcher, most: int = 4
) -> Iterator[tuple[Matcher, WordMatcher]]:
    """Both matchers after the same tokens."""
    yield matcher, oracle
    if most:
        for token in tokens_of(oracle.mask()).tolist():
            if token not in END_IDS:
                there = TokenId(token)
                yield from positions(matcher.advance(there), oracle.advance(there), most - 1)


def assert_equal(healed: Constraint, texts: list[str]) -> None:
    """Compare a healed position with the oracle of the texts that may be written from there."""
    oracle = WordMatcher.of(texts)
    for matcher, expected in positions(compiler().start(healed), oracle):
        allowed = tokens_of(expected.mask()).tolist()
        assert tokens_of(matcher.mask()).tolist() == allowed
        assert matcher.is_accepting == expected.is_accepting
        assert all(matcher.allows(TokenId(token)) for token in allowed)
        run = matcher.forced_run(Forcing.STRICT)
        assert run == expected.forced_run(Forcing.STRICT)
        for budget in range(1, 5):
            if not matcher.can_complete_within(budget):
                continue
            within = tokens_of(matcher.mask_within(budget)).tolist()
            assert within
            assert {*within} <= {*tokens_of(expected.mask_within(budget)).tolist()}
        shortest = matcher.shortest_completion()
        at: WordMatcher = expected
        for token in shortest:
            at = at.advance(token)
        assert at.is_accepting


@settings(max_examples=times(60))
@given(words=WORDS, data=st.data())
def test_after_a_prompt_the_constraint_follows_what_is_spelled_again(
    words: list[str], data: st.DataObject
) -> None:
    respelled = data.draw(st.sampled_from(["a", "ab", "cd", "na", "{", "cdn"]))
    whole = Sequence([Text(respelled), Choice(words)])
    assert_equal(Continued(whole, "", respelled), [respelled + word for word in words])


@settings(max_examples=times(60))
@given(words=WORDS, data=st.data())
def test_a_message_and_what_follows_fit_the_constraint_together(
    words: list[str], data: st.DataObject
) -> None:
    word = data.draw(st.sampled_from(words))
    end = data.draw(st.integers(1, len(word)))
    begin = data.draw(st.integers(0, end))
    begun, respelled = word[:begin], word[begin:end]
    rest = [each[begin:] for each in words if each.startswith(word[:end])]
    assert_equal(Continued(Choice(words), begun, respelled), rest)


def test_free_text_begins_with_what_is_spelled_again() -> None:
    matcher = compiler().start(Continued(None, "", "cd"))
    assert tokens_of(matcher.mask()).tolist() == sorted(ids("c", "cd", "cdna"))
    assert tokens_of(matcher.advance(*ids("c")).mask()).tolist() == [*ids("d")]
    free = compiler().start(None)
    for spelled in (ids("c", "d"), ids("cd"), ids("cdna")):
        at = matcher
        for token in spelled:
            at = at.advance(token)
        assert at is free
    with pytest.raises(TokenRejectedError, match="b'cd' has to be spelled first"):
        matcher.advance(*ids("a"))
    assert matcher.shortest_completion() == ids("cd")
    assert not matcher.can_complete_within(0)
    assert matcher.can_complete_within(1)


def test_a_token_after_which_the_rest_has_no_spelling_is_left_out() -> None:
    """Without a token for the second byte of a character alone, its first must not be taken."""
    lacking = list(TOKEN_BYTES)
    lacking[TOKEN_BYTES.index(b"\xa9")] = "é".encode()
    vocabulary = type(VOCABULARY)(tuple(lacking), END_IDS, VOCABULARY.spell)
    matcher = ConstraintCompiler(vocabulary).start(Continued(None, "", "é"))
    assert isinstance(matcher, HealingMatcher)
    assert tokens_of(matcher.mask()).tolist() == [TOKEN_BYTES.index(b"\xa9")]


@pytest.mark.parametrize(
    ("constraint", "begun", "message"),
    [
        (
            NAMED,
            '{"nome',
            "the last message does not fit the constraint: 'ome' at character 3 (byte 3) may not "
            "come after '{\"n'; write a there",
        ),
        (
            NAMED,
            '{"name": "Ada"',
            "the last message does not fit the constraint: ' \"Ada\"' at character 8 (byte 8) may "
            'not come after \'{"name":\'; write " there',
        ),
        (
            NAMED,
            "Sure: {",
            "the last message does not fit the constraint: 'Sure: {' at character 0 (byte 0) may "
            "not come at the beginning; write { there",
        ),
        (
            NAMED,
            '{"name":"é"}!',
            "the last message does not fit the constraint: '!' at character 12 (byte 13) may not "
            'come after \'{"name":"é"}\'; end the message there',
        ),
        (
            Regex("[a-c]x"),
            "d",
            "the last message does not fit the constraint: 'd' at character 0 (byte 0) may not "
            "come at the beginning; continue there with one of a b c",
        ),
    ],
)
def test_a_beginning_that_does_not_fit_is_refused_with_its_place(
    constraint: Constraint, begun: str, message: str
) -> None:
    for respelled in ("", begun[-1:]):
        with pytest.raises(RequestError) as refused:
            compiler().start(Continued(constraint, begun.removesuffix(respelled), respelled))
        assert str(refused.value) == message
        assert refused.value.field == "messages"


@pytest.mark.parametrize("begun", ["{", '{"', '{"na', '{"name"', '{"name":"A', '{"name":"A"}'])
def test_the_answer_goes_on_where_the_message_ends(begun: str) -> None:
    """As after the same text written as tokens, with its left context."""
    whole = compiler().start(NAMED)
    for token in spell_bytes(begun.encode()):
        whole = whole.advance(token)
    assert compiler().start(Continued(NAMED, begun, "")) == whole
