"""The places drawn from answers, and the tokens that stand for a whole vocabulary."""

from __future__ import annotations

import pytest
import torch

from guided.errors import RequestError
from guided.train.accuracy import Accuracy
from guided.train.candidates import CandidateSampler
from guided.train.examples import BESIDE_WEIGHT, Example, draw_places, most_frequent, split

#                       0   1   2   3   4   5
_ONE = Example("1", (10, 11, 12, 13, 14, 15), (False, False, True, False, True, True))
_TWO = Example("2", (20, 21, 22), (False, True, False))


def test_places_are_those_after_which_the_model_chose() -> None:
    places = draw_places([_ONE, _TWO], 99, 3, every=True)
    assert list(zip(places.text.tolist(), places.token.tolist(), strict=True)) == [
        *((0, 1), (0, 3), (0, 4)),
        (1, 0),
    ]
    assert places.following.tolist() == [[12, 13, 14], [14, 15, 0], [15, 0, 0], [21, 22, 0]]
    beside = pytest.approx(BESIDE_WEIGHT)
    assert places.weights.tolist() == [[1, beside, 1], [1, 1, 0], [1, 0, 0], [1, beside, 0]]


def test_other_places_are_drawn_less_often() -> None:
    torch.manual_seed(0)
    drawn = [draw_places([_ONE], 1, 1).token.item() for _ in range(2000)]
    counts = [drawn.count(place) for place in range(6)]
    # Two places are beside the chosen ones, and the last token has nothing after it.
    total = 3 + 2 * BESIDE_WEIGHT
    expected = [2000 * weight / total for weight in (BESIDE_WEIGHT, 1, BESIDE_WEIGHT, 1, 1, 0)]
    assert counts == pytest.approx(expected, abs=70)


def test_all_places_are_taken_where_there_are_too_few() -> None:
    assert sorted(draw_places([_ONE], 99, 1).token.tolist()) == [0, 1, 2, 3, 4]


def test_frequent_tokens_are_chosen_ones_first() -> None:
    examples = [_ONE, Example("3", (30, 30, 30, 12), (False, False, False, True))]
    assert most_frequent(examples, 1, 50).tolist() == [12]
    assert most_frequent(examples, 4, 50).tolist() == [12, 14, 15, 30]
    # Then the lowest ids, up to the whole vocabulary.
    assert most_frequent([_TWO], 5, 50).tolist() == [0, 1, 20, 21, 22]
    assert most_frequent([_TWO], 50, 50).tolist() == list(range(50))


def test_which_answers_are_held_out_follows_from_their_keys() -> None:
    chosen = (False, False, True, False)
    answers = [Example(f"{number:016x}", (1, 2, 3, 4), chosen) for number in range(48)]
    training, held_out = split(answers, longest=3)
    assert [int(example.key, 16) for example in held_out] == [0, 16, 32]
    assert len(training) == 45
    assert training[0].tokens == (1, 2, 3)
    assert training[0].chosen == (False, False, True)
    with pytest.raises(RequestError, match="3 answers to train on and 0"):
        split(answers[1:4], longest=9)


def test_a_part_of_the_vocabulary_stands_for_the_whole() -> None:
    """The mean of the estimated sum over many draws is the sum over all tokens."""
    torch.manual_seed(0)
    logits = torch.randn(500)
    right = torch.tensor([[7, 499], [3, 7]])
    sampler = CandidateSampler(torch.tensor([1, 3, 5]), 500, 50)
    sums = []
    for _ in range(400):
        found = sampler.sample(right)
        assert len(found.tokens) == len({*found.tokens.tolist()}) == 55
        assert torch.equal(found.tokens[found.right], right)
        assert {1, 3, 5, 7, 499} <= {*found.tokens.tolist()}
        sums.append((logits[found.tokens] + found.extra).exp().sum())
    assert float(torch.stack(sums).mean()) == pytest.approx(float(logits.exp().sum()), rel=0.02)


def test_a_small_vocabulary_is_taken_whole() -> None:
    found = CandidateSampler(torch.tensor([1]), 20, 50).sample(torch.tensor([4]))
    assert sorted(found.tokens.tolist()) == list(range(20))
    assert not found.extra.any()


def test_accuracy_counts_by_depth_and_rank() -> None:
    accuracy = Accuracy()
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    accuracy.add(1, logits, torch.tensor([0, 2]))
    accuracy.add(2, logits, torch.tensor([3, 0]))
    accuracy.add(1, logits[:1], torch.tensor([1]))
    assert [accuracy.share(1, rank) for rank in (1, 3, 8)] == [pytest.approx(1 / 3), 1, 1]
    assert [accuracy.share(2, rank) for rank in (1, 3, 8)] == [0, 0, 1]
    assert "| head 1 | 0.333 | 1.000 | 1.000 | 3 |" in accuracy.markdown("head")
