"""What a drafter with logits of its own proposes, and what it learns of it."""

from __future__ import annotations

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
    ProposalRates,
    assumed_rates,
    choose_token,
    verify,
)
from guided.decoding.penalties import History
from guided.spec import Forcing, Sampling, TokenId
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    spell_bytes,
)
from tests.kit.draft_context import draft_context, verified

SIZE = len(TOKEN_BYTES)


def opened(matcher: Any, sampling: Sampling | None = None) -> tuple[DraftBuilder, Expansion]:
    builder = DraftBuilder(
        DraftTree.chain(spell_bytes(b">"), matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(16),
        longest=1000,
        end_ids=END_IDS,
    )
    return builder, Expansion(draft_context(sampling), ProposalRates(assumed_rates()))


def likes(*texts: bytes) -> NDArray[np.float32]:
    """Logits that like these tokens, the first most."""
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
        position = 1000 - builder.left(builder.root)
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
        says = dict.fromkeys(tree.deciding, likes(b"b"))
        expansion.learn(verified(tree, verify(tree, says, chooser, 0, history)))
    assert rates.rate((0, 7)) < 0.2
    assert sum(rates.accepted.values()) == 30


def test_equal_proposals_of_another_drafter_are_continued_from() -> None:
    builder, expansion = opened(AnythingMatcher())
    first = builder.add(builder.root, TokenId(spell_bytes(b"a")[0]))
    found = expansion.expand(builder, builder.root, likes(b"a"), 1.0, 1)
    assert [tip for tip, _ in found] == [first]
