"""What a drafter with logits of its own proposes, and what it learns from the outcome."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.decoding import (
    NO_HISTORY,
    Chooser,
    DraftBudget,
    DraftBuilder,
    DraftTree,
    Expansion,
    Proposal,
    ProposalRates,
    assumed_rates,
    choose_token,
    verify,
)
from guided.decoding.penalties import History
from guided.spec import Forcing, Sampling, TokenId, Verification
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    spell_bytes,
)
from tests.kit.draft_context import draft_context, verified

SIZE = len(TOKEN_BYTES)


def opened(
    matcher: Any, sampling: Sampling | None = None, **changed: Any
) -> tuple[DraftBuilder, Expansion]:
    builder = DraftBuilder(
        DraftTree.chain(spell_bytes(b">"), matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(changed.pop("room", 16)),
        tokens_left=1000,
        end_ids=END_IDS,
    )
    options: dict[str, Any] = {"seed": 0, "max_tokens": 1000, "end_ids": END_IDS} | changed
    chooser = Chooser(sampling or Sampling(), **options)
    context = draft_context(sampling, chooser=chooser)
    return builder, Expansion(context, ProposalRates(assumed_rates()))


def likes(*texts: bytes) -> NDArray[np.float32]:
    """Logits that prefer these tokens, the first most."""
    logits = np.full(SIZE, -9.0, np.float32)
    for rank, text in enumerate(texts):
        logits[spell_bytes(text)[0]] = 5.0 - rank
    return logits


def test_the_likeliest_tokens_are_drafted_likeliest_first() -> None:
    builder, expansion = opened(AnythingMatcher())
    found = expansion.expand(builder, builder.root, likes(b"a", b"b", b"c"), 1.0, 2)
    tree = builder.tree()
    assert tree.tokens == (*spell_bytes(b">"), *spell_bytes(b"a"), *spell_bytes(b"b"))
    assert tree.parents == (None, 0, 0)
    chances = [chance for _, chance in found]
    assert chances == sorted(chances, reverse=True)


def test_what_the_grammar_does_not_allow_is_no_proposal() -> None:
    builder, expansion = opened(WordMatcher(frozenset({b"bx", b"cx"}), is_careless=False))
    expansion.expand(builder, builder.root, likes(b"a", b"c", b"b"), 1.0, 1)
    assert builder.tree().tokens[:2] == (*spell_bytes(b">"), *spell_bytes(b"c"))


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
def test_a_drafter_that_thinks_as_the_model_is_always_right(temperature: float) -> None:
    """Both draw with the noise of the position, so equal logits give equal tokens."""
    sampling = Sampling(temperature=temperature, top_k=20, seed=3)
    for draw in range(20):
        logits = np.random.default_rng(draw).normal(0, 2, SIZE).astype(np.float32)
        matcher: Any = AnythingMatcher()
        builder, expansion = opened(matcher, sampling)
        expansion.expand(builder, builder.root, logits, 1.0, 1)
        position = 1000 - builder.tokens_left(builder.root)
        chosen = choose_token(logits, matcher.mask(), sampling, seed=0, position=position)
        assert chosen in (*builder.tree().tokens[1:], *END_IDS)


def test_rates_follow_what_the_model_took() -> None:
    rates = ProposalRates(assumed_rates())
    chooser = Chooser(Sampling(), seed=0, max_tokens=1000, end_ids=END_IDS)
    history: History = NO_HISTORY
    for _ in range(30):
        matcher: Any = AnythingMatcher()
        builder, _ = opened(matcher)
        expansion = Expansion(draft_context(), rates)
        expansion.begin()
        expansion.expand(builder, builder.root, likes(b"a", b"b"), 1.0, 2)
        tree = builder.tree()
        says = dict.fromkeys(tree.nodes_needing_logits, likes(b"b"))
        expansion.learn(verified(tree, verify(tree, says, chooser, 0, history)))
    assert rates.rate((0, 7)) < 0.2
    assert sum(rates.accepted.values()) == 30


def test_equal_proposals_of_another_drafter_are_continued_from() -> None:
    builder, expansion = opened(AnythingMatcher())
    first = builder.add(builder.root, TokenId(spell_bytes(b"a")[0]))
    found = expansion.expand(builder, builder.root, likes(b"a"), 1.0, 1)
    assert [tip for tip, _ in found] == [first]


# --- drawn proposals

REJECTION = {"verification": Verification.REJECTION}
WARM = Sampling(temperature=1.0, top_k=30)


def some_logits(draw: int) -> NDArray[np.float32]:
    return np.random.default_rng(draw).normal(0, 2, SIZE).astype(np.float32)


def test_every_draw_is_kept_with_its_law_though_there_is_room_for_one() -> None:
    builder, expansion = opened(AnythingMatcher(), WARM, room=1, **REJECTION)
    found = expansion.expand(builder, builder.root, some_logits(0), 1.0, 3)
    tree = builder.tree()
    tree.check()
    assert (len(found), len(tree)) == (1, 2)
    drawn = tree.draws[builder.root]
    assert len({one.token for one in drawn}) == len(drawn) == 3
    # Each is drawn from the rest that the earlier ones left.
    for number, one in enumerate(drawn):
        assert one.distribution is not None
        assert one.distribution.probability(one.token) > 0
        assert all(one.distribution.probability(before.token) == 0 for before in drawn[:number])


def test_ends_of_the_answer_are_drawn_like_other_tokens() -> None:
    """Leaving them out would make them rarer than they are."""
    logits = np.full(SIZE, -9.0, np.float32)
    logits[[*END_IDS]] = 5.0
    builder, expansion = opened(AnythingMatcher(), WARM, **REJECTION)
    assert expansion.expand(builder, builder.root, logits, 1.0, 1) == []
    (drawn,) = builder.tree().draws[builder.root]
    assert drawn.token in END_IDS


def test_draws_differ_by_seed_by_node_and_by_where_the_tree_begins() -> None:
    logits = np.zeros(SIZE, np.float32)

    def draws(**changed: Any) -> list[TokenId]:
        builder, expansion = opened(AnythingMatcher(), WARM, **(REJECTION | changed))
        level = expansion.expand(builder, builder.root, logits, 1.0, 2)
        for tip, chance in level:
            expansion.expand(builder, tip, logits, chance, 2)
        return [one.token for each in builder.tree().draws.values() for one in each]

    first = draws()
    assert first == draws()
    assert len({*map(tuple, (first[:2], first[2:4], first[4:6]))}) == 3
    assert first != draws(seed=1)
    # The builder has 1,000 tokens left, so the answer has as many as the budget is larger.
    assert first != draws(max_tokens=1001)


def test_draws_have_the_frequencies_of_their_law() -> None:
    logits = some_logits(2)
    counts: Counter[TokenId] = Counter()
    distribution = None
    for seed in range(2_000):
        builder, expansion = opened(
            AnythingMatcher(), Sampling(temperature=1.0, top_k=5), seed=seed, **REJECTION
        )
        expansion.expand(builder, builder.root, logits, 1.0, 1)
        (drawn,) = builder.tree().draws[builder.root]
        counts[drawn.token] += 1
        distribution = drawn.distribution
    assert distribution is not None
    for token, share in zip(distribution.tokens, distribution.probabilities, strict=True):
        deviation = np.sqrt(2_000 * share * (1 - share))
        assert abs(counts[TokenId(int(token))] - 2_000 * share) < 4.5 * deviation


def test_what_another_drafter_proposed_is_joined_and_not_drawn_again() -> None:
    logits = likes(b"a", b"b")
    for seed in range(30):
        builder, expansion = opened(AnythingMatcher(), WARM, seed=seed, **REJECTION)
        first = builder.add(builder.root, TokenId(spell_bytes(b"a")[0]))
        found = expansion.expand(builder, builder.root, logits, 1.0, 2)
        assert found[0][0] == first
        known, drawn = builder.tree().draws[builder.root]
        assert known == Proposal(spell_bytes(b"a")[0], None)
        assert drawn.token != known.token
