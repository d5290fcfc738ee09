"""A choice always leaves room for an end."""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.decoding import NO_HISTORY, Chooser, ChosenToken, FinalCompletion
from guided.errors import LimitExceededError
from guided.spec import Sampling
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes

A, B = spell_bytes(b"a")[0], spell_bytes(b"b")[0]


def logits(**values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    row = np.zeros(len(TOKEN_BYTES), dtype=np.float32)
    for text, value in values.items():
        row[spell_bytes(text.encode())[0]] = value
    return row


def chosen(
    left: Chooser, row: np.ndarray[Any, np.dtype[np.float32]], matcher: Any, position: int
) -> ChosenToken:
    choice = left.choose(row, matcher, position, NO_HISTORY)
    assert isinstance(choice, ChosenToken)
    return choice


def chooser(max_tokens: int, temperature: float = 0.0, seed: int = 0) -> Chooser:
    return Chooser(
        sampling=Sampling(temperature=temperature),
        seed=seed,
        max_tokens=max_tokens,
        end_ids=END_IDS,
    )


LONG_OR_SHORT: Any = WordMatcher.of(["axyzxyz", "b"])


def test_a_token_that_fits_is_kept() -> None:
    choice = chosen(chooser(7), logits(a=5), LONG_OR_SHORT, 0)
    assert (choice.token, choice.budget_limited) == (A, False)


def test_a_token_that_leaves_no_room_for_an_end_is_chosen_again() -> None:
    choice = chosen(chooser(6), logits(a=5), LONG_OR_SHORT, 0)
    assert (choice.token, choice.budget_limited) == (B, True)


def test_the_tokens_before_count_against_the_budget() -> None:
    assert chosen(chooser(9), logits(a=5), LONG_OR_SHORT, 2).token == A
    assert chosen(chooser(9), logits(a=5), LONG_OR_SHORT, 3).token == B


def test_an_end_needs_no_room() -> None:
    here: Any = WordMatcher.of(["", "abcd"])
    row = logits()
    row[1] = 9
    choice = chosen(chooser(1), row, here, 0)
    assert (choice.token, choice.matcher, choice.budget_limited) == (1, None, False)


def test_only_an_end_may_be_left_to_choose() -> None:
    here: Any = WordMatcher.of(["", "axyz"])
    choice = chosen(chooser(1), logits(a=9), here, 0)
    assert choice.token in END_IDS
    assert (choice.matcher, choice.budget_limited) == (None, True)


def test_choosing_again_keeps_the_law_of_the_narrowed_mask() -> None:
    """b : c stay 1 : 2 when a, the likeliest, is taken away (chi-square, 10.8 once in 1,000)."""
    here: Any = WordMatcher.of(["axyzxyz", "b", "c"])
    row = logits(a=2, b=0, c=float(np.log(2)))
    draws = 1500
    tokens = [
        chosen(chooser(6, temperature=1, seed=seed), row, here, 0).token for seed in range(draws)
    ]
    b = tokens.count(B)
    assert A not in tokens
    expected = draws / 3
    chi_square = (b - expected) ** 2 / expected + (draws - b - 2 * expected) ** 2 / (2 * expected)
    assert chi_square < 10.8


class FullMatcher(WordMatcher):
    """Knows a completion, but has no room to find anything else."""

    def mask(self) -> Any:
        raise LimitExceededError("too many states", limit=1)


def test_a_constraint_at_its_limit_closes_along_its_way_out() -> None:
    full: Any = FullMatcher(frozenset({b"ab12"}), is_careless=False)
    assert chooser(9).choose(logits(), full, 0, NO_HISTORY) == FinalCompletion(spell_bytes(b"ab12"))


def test_a_way_out_is_taken_whole_where_its_first_token_leads_to_a_longer_one() -> None:
    class Forgetful(WordMatcher):
        def advance(self, token: Any) -> WordMatcher:
            after = super().advance(token)
            return Forgetful(after.rests, is_careless=False)

        def shortest_completion(self) -> Any:
            """ "ax" from the start; one token later it only knows the longest end."""
            rest = b"ax" if b"ax" in self.rests else max(self.rests, key=len)
            return spell_bytes(rest)

    here: Any = Forgetful(frozenset({b"ax", b"axyzyz"}), is_careless=False)
    assert chooser(2).choose(logits(), here, 0, NO_HISTORY) == FinalCompletion(spell_bytes(b"ax"))
