"""The records of a trace about a drafter with logits of its own."""

from __future__ import annotations

from guided.decoding import DraftBudget, DraftTree, Expansion, ProposalRates, assumed_rates
from guided.decoding.trace import Outcome, TracedBuilder
from guided.spec import Forcing, TokenId
from tests.engine.finite_language import END_IDS, WordMatcher, spell_bytes
from tests.kit.draft_context import draft_context
from tests.unit.decoding.test_expansion import likes


def test_the_likeliest_tokens_that_the_mask_took_away_are_refused() -> None:
    matcher = WordMatcher(frozenset({b"bx", b"cx"}), is_careless=False)
    builder = TracedBuilder(
        DraftTree.chain(spell_bytes(b">"), matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(16),
        tokens_left=1000,
        end_ids=END_IDS,
    )
    builder.source = "model"
    expansion = Expansion(draft_context(), ProposalRates(assumed_rates()))
    expansion.expand(builder, builder.root, likes(b"a", b"c", b"z", b"b"), 0.5, 3)
    found = {(one.token, one.outcome) for one in builder.proposals}
    outcomes = {b"a": Outcome.REFUSED, b"z": Outcome.REFUSED, b"c": Outcome.ADDED}
    outcomes[b"b"] = Outcome.ADDED
    expected = {(TokenId(spell_bytes(text)[0]), each) for text, each in outcomes.items()}
    assert expected <= found
    assert {token for token, each in found if each is Outcome.REFUSED} == {
        spell_bytes(b"a")[0],
        spell_bytes(b"z")[0],
    }
    first = builder.proposals[0]
    assert (first.drafter, first.node) == ("model", 0)
    # The likeliest of all; the path up to it has a chance of one half.
    assert 0.25 < first.chance < 0.5
