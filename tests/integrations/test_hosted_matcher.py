"""The calls that another engine may make to a matcher, none of which raises."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from guided import Choice, Forcing, JsonSchema, Regex
from guided.compiler import Compiler, ConstraintLimits
from guided.integrations.hosted_matcher import HostedMatcher
from guided.masks.mask import tokens_of
from guided.spec import Structure, TokenId
from tests.kit.walks import BYTES, END, PIECES

COMPILER = Compiler(BYTES)
STOP = 400
"""A token at which the host stops, unknown to the vocabulary."""


def hosted(
    constraint: Structure,
    *stops: int,
    compiler: Compiler = COMPILER,
    forcing: Forcing = Forcing.OFF,
) -> HostedMatcher:
    return HostedMatcher(compiler.compile(constraint).matcher(), BYTES.end_ids, stops, forcing)


def allowed(matcher: HostedMatcher) -> set[int]:
    memory = np.full((2, 14), 7, dtype=np.int32)
    matcher.fill(memory, 1)
    assert (memory[0] == 7).all(), "another row was written to"
    return {*tokens_of(memory[1]).tolist()}


def spelled(text: str) -> list[int]:
    return [ord(letter) + 1 for letter in text]  # a token for each byte


def test_all_tokens_are_accepted_or_none() -> None:
    matcher = hosted(Regex("ab|ac"))
    a, b, c = spelled("abc")
    before = allowed(matcher)
    assert not matcher.accept([a, a])
    assert not matcher.accept([-1])
    assert allowed(matcher) == before == {a}
    assert matcher.validate([a, c, a]) == 2
    assert matcher.accept([a, b, END])
    assert matcher.is_terminated
    matcher.rollback(2)
    assert not matcher.is_terminated
    assert allowed(matcher) == {b, c}
    matcher.reset()
    assert allowed(matcher) == {a}


def test_what_stands_behind_an_end_is_not_looked_at() -> None:
    matcher = hosted(Choice(["a"]))
    (a,) = spelled("a")
    assert matcher.accept([a, END, a, a])
    assert matcher.is_terminated
    assert matcher.accept([a])
    matcher.rollback(2)
    assert allowed(matcher) == {a}


def test_tokens_that_the_host_stops_at_come_where_the_answer_may_end() -> None:
    a, b = spelled("ab")
    matcher = hosted(Regex("ab?"), STOP, b)
    assert allowed(matcher) == {a}
    assert not matcher.accept([STOP])
    assert matcher.accept([a])
    assert allowed(matcher) == {b, STOP, END}
    assert matcher.validate([b, a]) == 1
    assert matcher.accept([b]), "this ends the answer, for the host stops at it"
    assert matcher.is_terminated
    matcher.rollback(1)
    assert matcher.accept([STOP])
    assert matcher.is_terminated


def test_a_token_of_the_host_that_is_text_is_forbidden_before_the_end() -> None:
    a, b, c = spelled("abc")
    matcher = hosted(Regex("a[bc]c"), b)
    assert matcher.accept([a])
    assert allowed(matcher) == {c}


PERSON = JsonSchema(
    '{"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],'
    ' "additionalProperties": false}'
)


def test_masks_inside_of_a_forced_run_hold_its_token_alone() -> None:
    compiler = Compiler(PIECES)
    free = hosted(PERSON, compiler=compiler)
    narrowed = hosted(PERSON, compiler=compiler, forcing=Forcing.CANONICAL)
    (run, *_) = free.forced()
    assert allowed(narrowed) == {run} < allowed(free)
    assert not narrowed.is_plain
    while len(allowed(narrowed)) == 1:
        assert narrowed.accept([*allowed(narrowed)])
    assert not narrowed.forced()
    assert {compiler.vocabulary.decode([TokenId(token)]) for token in allowed(narrowed)} >= {
        b"1",
        b"2",
    }


def test_the_shortest_end_goes_before_the_tokenizers_spelling() -> None:
    """Merges spell ``abc`` as ``ab`` and ``c``, but there is also a token for all of it."""
    letters = [*pre_tokenizers.ByteLevel.alphabet(), "ab", "bc", "abc", "</s>"]
    merges = [("a", "b"), ("b", "c"), ("a", "bc")]
    tokenizer = Tokenizer(models.BPE({text: n for n, text in enumerate(letters)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ab, whole, end, c = (letters.index(text) for text in ("ab", "abc", "</s>", "c"))
    tokenizer.add_special_tokens(["</s>"])
    compiler = Compiler(tokenizer, end_ids=[end])
    for max_tokens, expected in ((9, ab), (2, whole)):
        compiled = compiler.compile(Regex("abc"))
        matcher = HostedMatcher(compiled.matcher(), [end], (), Forcing.CANONICAL)
        matcher.end_within(max_tokens)
        assert matcher.forced() == (ab, c)
        assert allowed(matcher) == {expected}


def test_what_is_complete_after_a_run_is_told_and_nothing_moved() -> None:
    matcher = hosted(Choice(["ab", "ac"]))
    a, b = spelled("ab")
    assert matcher.forced() == (a,)
    assert not matcher.is_complete_after([a])
    assert matcher.is_complete_after([a, b])
    assert not matcher.is_complete_after([b]), "it may not come"
    assert allowed(matcher) == {a}


@pytest.mark.parametrize(("max_tokens", "is_whole"), [(70, True), (11, True), (10, False)])
def test_an_answer_ends_before_it_is_cut_off(max_tokens: int, is_whole: bool) -> None:
    matcher = hosted(Regex("(ab){2,}x(cd){2}!"))
    matcher.end_within(max_tokens)
    longest = [ord("a") + 1, ord("b") + 1]
    for place in range(max_tokens):
        choices = allowed(matcher)
        wanted = longest[place % 2]
        assert matcher.accept([wanted if wanted in choices else min(choices)])
    assert matcher.is_terminated == is_whole


@pytest.mark.parametrize("max_tokens", [150, 400])
def test_what_a_recursive_answer_opened_is_closed_in_time(max_tokens: int) -> None:
    lists = {"type": "array", "items": {"$ref": "#/$defs/t"}}
    matcher = hosted(JsonSchema(json.dumps({"$ref": "#/$defs/t", "$defs": {"t": lists}})))
    matcher.end_within(max_tokens)
    (opening,) = spelled("[")
    written = 0
    while not matcher.is_terminated:
        choices = allowed(matcher)
        assert matcher.accept([opening if opening in choices else min(choices)])
        written += 1
    assert max_tokens - 4 <= written <= max_tokens


def test_drafts_that_lead_past_the_last_token_leave_the_budget_as_it_was() -> None:
    matcher = hosted(Regex("a*bbb"))
    matcher.end_within(7)
    a, b = spelled("ab")
    assert matcher.accept([a, a, a])
    assert allowed(matcher) == {b}
    assert matcher.accept([a, a])
    assert allowed(matcher) == {a, b}
    matcher.rollback(2)
    assert allowed(matcher) == {b}


def hard(length: int) -> JsonSchema:
    """A different pattern for each test, because the parts of one are kept in the process."""
    pattern = f"^(a|b)*a(a|b){{{length}}}c$"
    schema = {"properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
    return JsonSchema(json.dumps({"type": "object"} | schema))


def closed_early(
    constraint: JsonSchema, caplog: pytest.LogCaptureFixture
) -> tuple[HostedMatcher, list[int]]:
    """A matcher that hit its limits a few tokens into its answer, and these tokens."""
    small = Compiler(BYTES, limits=ConstraintLimits(step_work=60))
    matcher, tokens = hosted(constraint, STOP, compiler=small), list[int]()
    while "closed early" not in caplog.text:
        assert len(tokens) < 20
        if tokens:
            assert matcher.accept(tokens[-1:])
        tokens.append(max(allowed(matcher)))
    return matcher, tokens[:-1]


def test_an_answer_that_takes_too_much_work_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    matcher, tokens = closed_early(hard(10), caplog)
    assert tokens
    while not matcher.is_terminated:
        *_, token = allowed(matcher)
        assert matcher.validate([token, token, -1]) in (1, 2)
        assert matcher.accept([token])
        tokens.append(token)
        assert len(tokens) < 100
    assert tokens[-1] in {END, STOP}
    whole = COMPILER.compile(hard(10)).matcher()
    assert whole.accept(tokens[:-1])
    assert whole.is_accepting


def test_an_answer_that_is_closed_may_be_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    matcher, tokens = closed_early(hard(11), caplog)
    way = [*matcher.forced(), END]
    assert len(way) > 5
    assert matcher.is_complete_after(way[:-1])
    assert not matcher.is_complete_after(way[:-2])
    assert matcher.validate([*way[:2], END]) == 2
    assert matcher.accept(way[:3])
    assert not matcher.accept([END])
    assert allowed(matcher) == {way[3]}
    matcher.rollback(2)
    assert matcher.forced() == tuple(way[1:-1])
    matcher.rollback(1 + len(tokens))
    assert allowed(matcher) == allowed(hosted(hard(11)))
    assert matcher.accept(tokens)
