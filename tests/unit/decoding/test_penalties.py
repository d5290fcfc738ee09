"""Bias, penalties and bans are those of transformers and of OpenAI, and leave some token."""

from __future__ import annotations

import random
import time
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers import (
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
)

from guided.decoding.penalties import (
    NO_HISTORY,
    GrowingTokenArray,
    History,
    adjust_logits,
    find_repeating_tokens,
)
from guided.spec import Sampling, TokenId

VOCABULARY = 40


def history(prompt: list[int], answer: list[int], end_ids: tuple[int, ...] = ()) -> History:
    tokens = np.array([*prompt, *answer], dtype=np.int64)
    return History(tokens, len(prompt), frozenset(TokenId(token) for token in end_ids))


def random_row(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 3, VOCABULARY).astype(np.float32)


def random_tokens(seed: int, count: int) -> list[int]:
    """Tokens drawn from few, so that they repeat."""
    draws = random.Random(seed)
    return [draws.randrange(12) for _ in range(count)]


def adjusted(
    row: NDArray[np.float32],
    sampling: Sampling,
    past: History,
    allowed: list[int] | None = None,
) -> dict[int, float]:
    tokens = np.arange(VOCABULARY) if allowed is None else np.array(allowed)
    left, logits = adjust_logits(tokens, row[tokens], sampling, past)
    return dict(zip(left.tolist(), logits.tolist(), strict=True))


def by_transformers(processor: object, row: NDArray[np.float32], past: History) -> dict[int, float]:
    scores = torch.from_numpy(row.astype(np.float64))[None]
    assert callable(processor)
    result = processor(torch.from_numpy(past.tokens)[None], scores)[0]
    return {i: float(x) for i, x in enumerate(result) if torch.isfinite(x)}


@pytest.mark.parametrize("penalty", [0.5, 1.2, 7.0])
def test_the_repetition_penalty_is_that_of_transformers(penalty: float) -> None:
    for seed in range(30):
        row, past = random_row(seed), history(random_tokens(seed, 9), random_tokens(seed + 1, 6))
        found = adjusted(row, Sampling(repetition_penalty=penalty), past)
        assert found == by_transformers(
            RepetitionPenaltyLogitsProcessor(penalty=penalty), row, past
        )


@pytest.mark.parametrize("size", [1, 2, 3, 5, 99])
def test_the_ban_on_repeats_is_that_of_transformers(size: int) -> None:
    banned = 0
    for seed in range(100):
        row, past = random_row(seed), history(random_tokens(seed, 30), random_tokens(seed + 1, 30))
        found = adjusted(row, Sampling(no_repeat_ngram_size=size), past)
        assert found == by_transformers(NoRepeatNGramLogitsProcessor(size), row, past)
        banned += VOCABULARY - len(found)
    assert banned or size > 3


def test_the_bias_is_that_of_transformers() -> None:
    bias = {3: 1.5, 39: -100.0, 0: 0.25}
    for seed in range(10):
        row = random_row(seed)
        theirs = SequenceBiasLogitsProcessor([[[token], value] for token, value in bias.items()])
        found = adjusted(row, Sampling(logit_bias=tuple(bias.items())), NO_HISTORY)
        expected = by_transformers(theirs, row, history([1], []))
        # Theirs is added in single precision.
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("presence", "frequency"), [(0.7, 0.0), (0.0, -0.3), (-2.0, 1.5)])
def test_presence_and_frequency_count_the_answer_as_openai_defines_them(
    presence: float, frequency: float
) -> None:
    """mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence"""
    sampling = Sampling(presence_penalty=presence, frequency_penalty=frequency)
    for seed in range(20):
        answer = random_tokens(seed, 20)
        row, count = random_row(seed), Counter(answer)
        expected = {
            j: float(row[j]) - count[j] * frequency - float(count[j] > 0) * presence
            for j in range(VOCABULARY)
        }
        found = adjusted(row, sampling, history(random_tokens(seed + 1, 9), answer))
        assert found == pytest.approx(expected, abs=1e-12)


ALL = Sampling(
    logit_bias=((2, 4.0), (5, -3.0)),
    repetition_penalty=1.3,
    presence_penalty=0.5,
    frequency_penalty=0.25,
    no_repeat_ngram_size=2,
)


def test_the_steps_come_in_the_documented_order() -> None:
    """Token 2: (1 + 4) / 1.3 - 0.5 - 2 * 0.25; token 5: (2 - 3) * 1.3; token 3 repeats 2 3."""
    row = np.zeros(VOCABULARY, dtype=np.float32)
    row[2], row[5], row[7] = 1, 2, -1
    found = adjusted(row, ALL, history([5, 7, 2, 3], [2, 9, 2]), [2, 3, 5, 7, 8])
    assert found == pytest.approx({2: 5 / 1.3 - 1.0, 5: -1.3, 7: -1.3, 8: 0.0})


@given(
    allowed=st.sets(st.integers(0, VOCABULARY - 1), min_size=1).map(sorted),
    prompt=st.lists(st.integers(0, 7), max_size=20),
    answer=st.lists(st.integers(0, 7), max_size=20),
)
def test_a_masked_token_has_no_part_in_what_the_others_get(
    allowed: list[int], prompt: list[int], answer: list[int]
) -> None:
    row, past = random_row(1), history(prompt, answer)
    everywhere = adjusted(row, ALL, past)
    here = adjusted(row, ALL, past, allowed)
    assert here
    if any(token in everywhere for token in allowed):
        assert here == {token: everywhere[token] for token in allowed if token in everywhere}
    else:
        assert list(here) == allowed


@pytest.mark.parametrize("size", [511, 512, 513, 514, 700])
def test_a_long_run_is_found_wherever_it_occurred(size: int) -> None:
    """Also where its occurrences overlap, as in a text that goes round in circles."""
    found = 0
    for seed in range(60):
        draws = random.Random(seed)
        circle = [draws.randrange(2) for _ in range(draws.choice([1, 2, 7, size, size + 3]))]
        text = circle * (1800 // len(circle)) + circle[: draws.randrange(len(circle))]
        for _ in range(draws.randrange(3)):
            text[draws.randrange(len(text))] = 5
        last = text[len(text) - size + 1 :]
        expected = {
            text[end] for end in range(size - 1, len(text)) if text[end - size + 1 : end] == last
        }
        assert {*find_repeating_tokens(size, history(text, [])).tolist()} == expected
        found += bool(expected)
    assert 10 < found < 60


def test_the_longest_runs_of_a_long_text_are_looked_up_in_an_instant() -> None:
    past = history([3] * 200_000, [])
    began = time.thread_time()
    assert find_repeating_tokens(100_000, past).tolist() == [3]
    assert time.thread_time() - began < 1.0


def test_where_every_way_on_would_repeat_nothing_is_banned() -> None:
    sampling = Sampling(no_repeat_ngram_size=1)
    assert set(adjusted(random_row(0), sampling, history([1, 2], [3]), [1, 3])) == {1, 3}
    assert set(adjusted(random_row(0), sampling, history([1, 2], [3]), [1, 3, 4])) == {4}


def test_a_token_that_the_model_thinks_impossible_is_no_other_way_on() -> None:
    row = random_row(0)
    row[4] = -np.inf
    found = adjusted(row, Sampling(no_repeat_ngram_size=1), history([1], []), [1, 4])
    assert set(found) == {1, 4}


def test_tokens_that_end_the_answer_are_spared() -> None:
    """The prompt's template wrote them, and the answer may still end."""
    past = history([0, 1, 0, 1], [2], end_ids=(0,))
    row = random_row(3)
    found = adjusted(row, Sampling(repetition_penalty=2.0, no_repeat_ngram_size=1), past, [0, 1, 5])
    assert found == {0: float(row[0]), 5: float(row[5])}


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 5))
def test_repeating_tokens_are_those_that_would_make_a_run_twice(
    tokens: list[int], size: int
) -> None:
    runs = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
    tail = tokens[len(tokens) - size + 1 :] if len(tokens) >= size - 1 else None
    expected = [t for t in range(3) if tail is not None and (*tail, t) in runs]
    assert find_repeating_tokens(size, history(tokens, [])).tolist() == expected


def test_a_token_log_reads_a_growing_sequence() -> None:
    log, tokens = GrowingTokenArray(), list[TokenId]()
    views = []
    for count in (0, 1, 5, 200, 2, 300, 1000):
        tokens += [TokenId(t) for t in range(len(tokens), len(tokens) + count)]
        views.append(log.as_array(tokens))
        assert views[-1].tolist() == tokens
    for view in views:
        assert view.tolist() == tokens[: len(view)]


def test_the_history_of_a_node_goes_on_behind_that_of_the_trunk() -> None:
    past = history([1, 2], [3])
    node = past.after([TokenId(4), TokenId(5)])
    assert (node.tokens.tolist(), node.answer.tolist()) == ([1, 2, 3, 4, 5], [3, 4, 5])
    assert past.after([]) is past
