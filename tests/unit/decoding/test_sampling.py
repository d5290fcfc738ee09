"""One token is chosen by the distribution that the request asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from guided.decoding.allowed_tokens import allowed_tokens, likeliest_token
from guided.decoding.filters import filter_tokens
from guided.decoding.sampling import choose_token, gumbel_noise
from guided.errors import ModelError
from guided.masks.mask import mask_of
from guided.spec import Sampling

VOCABULARY = 70


def packed(tokens: list[int]) -> NDArray[np.int32]:
    words = np.zeros(-(-VOCABULARY // 32), dtype=np.int64)
    for token in tokens:
        words[token // 32] |= 1 << (token % 32)
    return words.astype(np.uint32).view(np.int32)


def row(**values: float) -> NDArray[np.float32]:
    """Logits of 0 but for those named ``t5=...``."""
    logits = np.zeros(VOCABULARY, dtype=np.float32)
    for name, value in values.items():
        logits[int(name[1:])] = value
    return logits


@given(st.sets(st.integers(0, VOCABULARY - 1)))
def test_a_mask_unpacks_to_the_tokens_it_was_packed_from(tokens: set[int]) -> None:
    assert allowed_tokens(packed(sorted(tokens)), VOCABULARY).tolist() == sorted(tokens)


@pytest.mark.parametrize(
    ("logits", "allowed", "token"),
    [
        (row(t3=5, t4=9), [3, 4], 4),
        (row(t3=5, t4=9), [3, 5], 3),
        (row(t31=2, t32=2, t69=2), [31, 32, 69], 31),
        (row(t31=2, t32=2, t69=2), [32, 69], 32),
        (row(t7=-np.inf, t8=-np.inf), [7, 8], 7),
        (row(t7=-np.inf), [7], 7),
    ],
)
def test_greedy_takes_the_likeliest_allowed_token_and_the_lowest_of_equals(
    logits: NDArray[np.float32], allowed: list[int], token: int
) -> None:
    assert choose_token(logits, packed(allowed), Sampling(), seed=0, position=0) == token


@pytest.mark.parametrize("fault", [np.nan, np.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, top_p=0.5)])
def test_logits_that_are_no_numbers_are_a_fault_of_the_model(
    fault: float, sampling: Sampling
) -> None:
    with pytest.raises(ModelError, match="at answer position 6 are not numbers"):
        choose_token(row(t3=fault), packed([3, 4]), sampling, seed=0, position=6)


def test_tokens_that_the_model_thinks_impossible_are_all_equal_where_no_other_is_allowed() -> None:
    nothing = np.full(VOCABULARY, -np.inf, dtype=np.float32)
    for sampling in (
        Sampling(temperature=1.0),
        Sampling(temperature=1.0, top_p=0.9, min_p=0.5, typical_p=0.9, eta_cutoff=0.1),
    ):
        drawn = {
            choose_token(nothing, packed([3, 4, 9]), sampling, seed=seed, position=0)
            for seed in range(40)
        }
        assert drawn == {3, 4, 9}


def test_a_token_that_is_not_allowed_may_have_any_logit() -> None:
    assert choose_token(row(t3=np.nan, t5=1), packed([4, 5]), Sampling(), seed=0, position=0) == 5


def nucleus_oracle(scores: list[float], top_k: int | None, top_p: float | None) -> list[int]:
    """Sort everything, cut at k, then cut where the sum reaches p."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:top_k]
    if top_p is None:
        return sorted(order)
    weights = [float(np.exp(scores[i] - max(scores))) for i in order]
    total, kept, mass = sum(weights), [], 0.0
    for index, weight in zip(order, weights, strict=True):
        kept.append(index)
        mass += weight
        if mass >= top_p * total:
            break
    return sorted(kept)


@given(
    scores=st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=40),
    top_k=st.none() | st.integers(1, 45),
    top_p=st.none() | st.sampled_from([0.013, 0.31, 0.517, 0.903, 0.9991]),
)
@settings(max_examples=300, deadline=None)
def test_top_k_then_top_p_equals_sorting_everything(
    scores: list[float], top_k: int | None, top_p: float | None
) -> None:
    kept = filter_tokens(np.array(scores), Sampling(temperature=1, top_k=top_k, top_p=top_p))
    assert kept.tolist() == nucleus_oracle(scores, top_k, top_p)


def test_a_nucleus_wider_than_its_first_look_is_found_whole() -> None:
    """Over 5,000 equal scores, half of the probability is 2,500 tokens, the lowest ids."""
    kept = filter_tokens(np.zeros(5000), Sampling(temperature=1, top_p=0.5))
    assert kept.tolist() == list(range(2500))


def test_filters_look_at_the_whole_mask_and_then_what_does_not_fit_drops_out() -> None:
    """Of the two likeliest, 3 and 5, one does not fit; 7 would be among the two that do."""
    logits, mask, within = row(t3=3, t5=2.5, t7=2), packed([3, 5, 7]), packed([5, 7])
    sampling = Sampling(temperature=1, top_k=2)
    drawn = set()
    for seed in range(200):
        first = choose_token(logits, mask, sampling, seed=seed, position=0)
        token = choose_token(logits, mask, sampling, seed=seed, position=0, within=within)
        assert token == first or first == 3
        drawn.add(token)
    assert drawn == {5}
    # If none of the tokens that the filters leave fits, they are applied to the fitting ones alone.
    narrow = packed([7])
    assert choose_token(logits, mask, sampling, seed=0, position=0, within=narrow) == 7


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7)])
def test_without_filters_a_draw_within_is_a_draw_from_what_fits(sampling: Sampling) -> None:
    logits, mask, within = row(t3=3, t5=2.5, t7=2), packed([3, 5, 7]), packed([5, 7])
    for seed in range(50):
        alone = choose_token(logits, within, sampling, seed=seed, position=0)
        assert alone == choose_token(logits, mask, sampling, seed=seed, position=0, within=within)


def test_the_same_seed_and_position_draw_the_same_token_and_others_do_not() -> None:
    logits, everything = row(), packed(list(range(VOCABULARY)))
    sampling = Sampling(temperature=1)

    def draw(seed: int, position: int) -> int:
        return choose_token(logits, everything, sampling, seed=seed, position=position)

    first = [draw(7, position) for position in range(40)]
    assert first == [draw(7, position) for position in range(40)]
    assert first != [draw(8, position) for position in range(40)]
    assert len(set(first)) > 20


def test_noise_belongs_to_the_token_and_not_to_its_place_among_the_allowed() -> None:
    some = gumbel_noise(np.array([3, 50, 60]), seed=1, position=2)
    everything = gumbel_noise(np.arange(VOCABULARY), seed=1, position=2)
    assert some.tolist() == everything[[3, 50, 60]].tolist()


def test_the_largest_seed_is_as_good_as_any() -> None:
    noise = gumbel_noise(np.arange(VOCABULARY), seed=2**63 - 1, position=10**6)
    assert np.isfinite(noise).all()
    assert len(set(noise.tolist())) == VOCABULARY


def test_a_tiny_temperature_is_greedy() -> None:
    logits = row(t3=5, t4=5.5, t9=4)
    sampling = Sampling(temperature=1e-9)
    chosen = {
        choose_token(logits, packed([3, 4, 9]), sampling, seed=seed, position=0)
        for seed in range(50)
    }
    assert chosen == {4}


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(temperature=1.0), {2: 0.1, 33: 0.2, 40: 0.3, 64: 0.4}),
        (Sampling(temperature=0.5), {2: 1 / 30, 33: 4 / 30, 40: 9 / 30, 64: 16 / 30}),
        (Sampling(temperature=1.0, top_k=2), {40: 3 / 7, 64: 4 / 7}),
        (Sampling(temperature=1.0, top_p=0.85), {33: 2 / 9, 40: 3 / 9, 64: 4 / 9}),
    ],
)
def test_draws_follow_the_law_of_the_filtered_softmax(
    sampling: Sampling, expected: dict[int, float]
) -> None:
    """Chi-square over 4,000 fixed seeds; 16.3 is passed once in a thousand with 3 degrees."""
    logits = row(t2=np.log(1), t33=np.log(2), t40=np.log(3), t64=np.log(4), t5=20)
    mask = packed([2, 33, 40, 64])
    draws = 4000
    counts = dict.fromkeys(expected, 0)
    for seed in range(draws):
        counts[choose_token(logits, mask, sampling, seed=seed, position=seed % 17)] += 1
    chi_square = sum(
        (counts[token] - draws * share) ** 2 / (draws * share) for token, share in expected.items()
    )
    assert chi_square < 16.3


def test_neighbouring_positions_draw_independently() -> None:
    """Pairs of draws at positions p and p + 1 fall evenly on the four cells of a fair coin."""
    sampling = Sampling(temperature=1)
    cells = {(a, b): 0 for a in (3, 4) for b in (3, 4)}
    for seed in range(2000):
        pair = [
            choose_token(row(), packed([3, 4]), sampling, seed=seed, position=position)
            for position in (0, 1)
        ]
        cells[pair[0], pair[1]] += 1
    assert sum((count - 500) ** 2 / 500 for count in cells.values()) < 16.3


def test_a_greedy_choice_unpacks_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it costs the same with a constraint and without."""
    logits = row(t9=3.0, t40=3.0, t7=2.0)
    monkeypatch.delattr("guided.decoding.sampling.allowed_tokens")
    everything = packed(list(range(VOCABULARY)))
    for mask, token in ((everything, 9), (packed([7, 40]), 40), (packed([7, 8]), 7)):
        assert choose_token(logits, mask, Sampling(), seed=0, position=0) == token


@pytest.mark.parametrize("size", [31, 32, 33, 95, 100])
def test_the_likeliest_token_is_that_of_sorting_the_allowed(size: int) -> None:
    """Whatever the sign of the logits, and with impossible tokens among them."""
    rng = np.random.default_rng(size)
    for spread in (0.0, 1.0, 1e38):
        for _ in range(200):
            logits = (rng.integers(-3, 4, size) * spread).astype(np.float32)
            logits[rng.random(size) < 0.2] = -np.inf
            allowed = np.flatnonzero(rng.random(size) < rng.choice([0.1, 0.9]))
            found = likeliest_token(logits, mask_of(size, allowed))
            if found is None:
                assert not len(allowed) or logits[allowed].max() == 0
            else:
                assert found == allowed[logits[allowed].argmax()]


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf])
def test_no_token_is_likeliest_where_one_is_no_number(value: float) -> None:
    logits = row(t3=value, t5=1)
    assert likeliest_token(logits, packed([3, 5])) is None
    assert likeliest_token(logits, packed([4, 5])) == 5


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused_where_it_is_allowed_and_passed_over_else(
    value: float,
) -> None:
    logits = row(t9=value, t7=2.0)
    assert choose_token(logits, packed([7, 8]), Sampling(), seed=0, position=0) == 7
    with pytest.raises(ModelError, match="are not numbers"):
        choose_token(logits, packed([7, 9]), Sampling(), seed=0, position=0)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 40, 63])
def test_tokens_behind_the_logits_are_not_allowed(size: int) -> None:
    logits = np.arange(1, size + 1, dtype=np.float32)
    assert likeliest_token(logits, mask_of(96, [size, 95])) is None
    assert likeliest_token(logits, mask_of(96, [0, size - 1, size, 95])) == size - 1
