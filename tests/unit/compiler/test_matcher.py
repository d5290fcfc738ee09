"""Matchers that move in place: after any order of calls they are where a fresh one would be."""

from __future__ import annotations

import random
import re
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from guided import Choice, Forcing, JsonOptions, Regex
from guided.compiler import Compiler, Matcher
from guided.errors import LimitExceededError, RequestError, UnsatisfiableError
from guided.masks.mask import tokens_of
from guided.spec import TokenId
from tests.kit.walks import END, PIECES

_COMPILER = Compiler(PIECES)
_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "name": {"enum": ["red", "green"]}},
    "required": ["a", "name"],
}
_COMPILED = _COMPILER.compile(_SCHEMA)


def _spell(text: str) -> list[int]:
    return list(PIECES.spell(text))


def _allowed(matcher: Matcher, budget: int | None = None) -> set[int]:
    bitmask = np.full((2, 11), 7, dtype=np.int32)
    matcher.fill_bitmask(bitmask, 1, budget=budget)
    assert (bitmask[0] == 7).all(), "another row was written to"
    return {*tokens_of(bitmask[1]).tolist()}


def _matcher_after(tokens: list[int]) -> Matcher:
    matcher = _COMPILED.matcher()
    assert matcher.accept(tokens)
    return matcher


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_calls_leads_where_the_tokens_lead(seed: int) -> None:
    draw = random.Random(seed)
    matcher, tokens = _COMPILED.matcher(), list[int]()
    kept: list[tuple[Matcher, list[int]]] = []
    for _ in range(120):
        match draw.randrange(6):
            case 0 if tokens:
                count = draw.randint(0, min(len(tokens), 5))
                matcher.rollback(count)
                tokens = tokens[: len(tokens) - count]
            case 1:
                kept.append((matcher.fork(), [*tokens]))
            case 2 if kept:
                matcher, tokens = kept.pop(draw.randrange(len(kept)))
            case 3:
                wrong = draw.choice([*{*range(len(PIECES))} - _allowed(matcher)])
                assert not matcher.accept([wrong])
            case _ if not matcher.is_terminated:
                token = draw.choice(sorted(_allowed(matcher)))
                assert matcher.accept([token])
                tokens.append(token)
        fresh = _matcher_after(tokens)
        assert _allowed(matcher) == _allowed(fresh)
        assert matcher.num_tokens == len(tokens)
        assert matcher.forced() == fresh.forced()
        assert matcher.shortest_completion() == fresh.shortest_completion()
        state = matcher.is_accepting, matcher.is_complete, matcher.is_terminated
        assert state == (fresh.is_accepting, fresh.is_complete, fresh.is_terminated)


def test_tokens_are_accepted_all_or_none() -> None:
    matcher = _COMPILED.matcher()
    right = _spell('{"a":1')
    wrong = [*right, *_spell("}")]
    assert not matcher.accept(wrong)
    assert matcher.num_tokens == 0
    assert matcher.validate(wrong) == len(right)
    assert matcher.num_tokens == 0
    assert matcher.accept(right)
    assert matcher.validate([]) == 0
    assert matcher.accept([])
    assert matcher.accept(np.array(_spell(',"name":"red"}'), dtype=np.int32))
    assert matcher.is_complete
    assert not matcher.is_terminated


def test_only_what_is_documented_is_public() -> None:
    page = Path(__file__).parents[3].joinpath("docs/mask-api.md").read_text("utf-8")
    section = page.split("\n## Matchers\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)", row.split("|")[1])}
    assert {name for name in dir(Matcher) if not name.startswith("_")} == documented
    with pytest.raises(AttributeError):
        _COMPILED.matcher().is_terminated = True  # type: ignore[misc]


def test_the_end_is_a_token_after_which_nothing_may_follow() -> None:
    whole = _spell('{"a":1,"name":"red"}')
    matcher = _matcher_after(whole)
    assert _allowed(matcher) == {END}
    assert matcher.validate([END, END]) == 1
    assert not matcher.accept([END, *_spell(" ")])
    assert matcher.accept([END])
    assert matcher.is_terminated
    assert _allowed(matcher) == {END}, "a row that allows nothing is no distribution"
    assert not matcher.accept([END])
    assert matcher.validate([END]) == 0
    assert matcher.forced() == ()
    assert matcher.shortest_completion(0) == ()
    matcher.rollback(2)
    assert not matcher.is_terminated
    assert matcher.num_tokens == len(whole) - 1
    matcher.reset()
    assert matcher.num_tokens == 0
    assert _allowed(matcher) == _allowed(_COMPILED.matcher())


@pytest.mark.parametrize("token", [-1, len(PIECES), 2**40])
def test_an_unknown_token_id_is_not_allowed(token: int) -> None:
    matcher = _COMPILED.matcher()
    assert not matcher.accept([token])
    assert matcher.validate([token]) == 0


@pytest.mark.parametrize(
    ("tokens", "wrong"),
    [
        ([0.5], "'float' object cannot be interpreted as an integer"),
        ([True], "a truth value is no number"),
        (5, "'int' object is not iterable"),
    ],
)
def test_token_ids_that_are_no_integers_are_refused(tokens: list[int], wrong: str) -> None:
    matcher = _COMPILED.matcher()
    for method in (matcher.accept, matcher.validate):
        with pytest.raises(RequestError) as caught:
            method(tokens)
        assert str(caught.value) == f"tokens: {wrong}; give whole numbers, counted from 0"


def test_the_end_is_refused_where_the_answer_may_not_end() -> None:
    matcher = _matcher_after(_spell('{"a":1'))
    assert not matcher.accept([END])
    assert END not in _allowed(matcher)


def test_a_budget_keeps_the_end_in_reach() -> None:
    matcher = _COMPILER.compile({"type": "array", "items": {"type": "integer"}}).matcher()
    draw, spent, budget = random.Random(1), 0, 9
    while not matcher.is_terminated:
        allowed = _allowed(matcher, budget - spent)
        assert allowed <= _allowed(matcher)
        # Continuing is preferred, and in the end it must not be possible.
        token = draw.choice(sorted(allowed - {END}) or [END])
        assert matcher.accept([token])
        spent += token != END
    assert spent <= budget


def test_a_budget_that_cannot_hold_is_refused_by_its_numbers() -> None:
    matcher = _COMPILED.matcher()
    needed = len(matcher.shortest_completion() or ())
    assert matcher.shortest_completion(needed) is not None
    assert matcher.can_end_within(needed)
    assert not matcher.can_end_within(needed - 1)
    assert matcher.shortest_completion(needed - 1) is None
    with pytest.raises(LimitExceededError) as caught:
        _allowed(matcher, needed - 1)
    assert str(caught.value) == (
        f"the answer takes {needed} more tokens to end, and the budget is {needed - 1};"
        " give the whole answer's budget from its first token on"
    )
    assert _allowed(matcher, needed)


def test_budgets_and_counts_are_whole_numbers() -> None:
    matcher = _COMPILED.matcher()
    half: int = 9.5  # type: ignore[assignment]
    for call, field in (
        (lambda: _allowed(matcher, half), "budget"),
        (lambda: matcher.shortest_completion(half), "budget"),
        (lambda: matcher.rollback(False), "num_tokens"),
        (lambda: _COMPILER.bitmask(half), "rows"),
    ):
        with pytest.raises(RequestError, match=f"^{field}: .* give whole numbers"):
            call()
    with pytest.raises(RequestError, match=r"^-1 rows; give how many"):
        _COMPILER.bitmask(-1)


def test_numbers_of_numpy_without_a_sign_count_as_others_do() -> None:
    tokens = _spell('{"a":12,"name":"red"}')
    matcher = _matcher_after(tokens)
    matcher.rollback(np.uint8(2))  # type: ignore[arg-type]
    assert matcher.num_tokens == len(tokens) - 2
    assert _allowed(matcher) == _allowed(_matcher_after(tokens[:-2]))
    anywhere = _COMPILER.compile(Regex("[ab]*")).matcher()
    assert _allowed(anywhere, np.uint32(0)) == {END}  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [-1, 2])
def test_no_more_is_taken_back_than_was_accepted(count: int) -> None:
    matcher = _matcher_after(_spell("{")[:1])
    with pytest.raises(RequestError, match=rf"cannot take back {count} tokens where 1 were"):
        matcher.rollback(count)
    assert matcher.num_tokens == 1


def test_forced_tokens_are_what_is_accepted_next() -> None:
    matcher = _COMPILED.matcher()
    forced = matcher.forced()
    assert PIECES.decode(forced) == b'{"', "further on some longer token may be the right one"
    assert matcher.validate(forced) == len(forced)
    assert matcher.forced(Forcing.OFF) == ()


def test_all_that_the_library_calls_a_constraint_is_compiled() -> None:
    for constraint, text in (
        (Regex("[ab]+"), "abba"),
        (Choice(("yes", "no")), "no"),
        ('{"const": 5}', "5"),
        (int, "12"),
        ({"type": "boolean"}, "true"),
    ):
        matcher = _COMPILER.compile(constraint).matcher()
        assert matcher.accept(_spell(text))
        assert matcher.is_accepting


def test_options_and_costs_belong_to_what_was_compiled() -> None:
    compiler = Compiler(PIECES)
    first = compiler.compile(_SCHEMA)
    again = compiler.compile(_SCHEMA)
    free = compiler.compile(_SCHEMA, json_options=JsonOptions(whitespace="free"))
    assert first.digest == again.digest != free.digest
    assert first.cost.states == again.cost.states > 0
    assert first.cost.seconds > again.cost.seconds
    assert first.nbytes > 0
    assert first.vocabulary is PIECES
    assert not first.matcher().accept(_spell("{ "))
    assert free.matcher().accept(_spell("{ "))


def test_what_no_text_satisfies_is_refused() -> None:
    with pytest.raises(UnsatisfiableError):
        _COMPILER.compile({"type": "integer", "minimum": 2, "maximum": 1})


def test_a_constraint_near_its_limits_is_compiled_again_for_the_next_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = Compiler(PIECES).compile(_SCHEMA)
    earlier = compiled.matcher()
    monkeypatch.setattr("guided.constraint.compiler._MAX_FULLNESS", -1.0)
    later = compiled.matcher()
    assert later._position != earlier._position
    assert _allowed(later) == _allowed(earlier)


def test_matchers_of_one_constraint_walk_in_many_threads() -> None:
    compiled = Compiler(PIECES).compile(_SCHEMA)
    text = [TokenId(token) for token in _spell('{"a":-12,"name":"green"}')]
    expected = []
    matcher = _COMPILED.matcher()
    for token in text:
        expected.append(_allowed(matcher))
        matcher.accept([token])
    found: list[list[set[int]]] = []

    def walk() -> None:
        walker, seen = compiled.matcher(), list[set[int]]()
        for token in text:
            seen.append(_allowed(walker))
            walker.accept([token])
        found.append(seen)

    threads = [Thread(target=walk) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6
