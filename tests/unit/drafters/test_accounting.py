"""Costs, verdicts and counts go to the drafters and the tree that they concern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guided.decoding import Acceptance, DraftContext, DraftRequest, DraftState, DraftTree
from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.judged_proposals import JudgedProposals
from guided.drafters import DrafterUnion
from guided.drafters.heads.growth import _count
from guided.drafters.union import UnionDraftState
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import AnythingMatcher, spell_bytes
from tests.kit.draft_context import draft_context, verified
from tests.unit.drafters.test_policy import BAD, GOOD, STEP, Answers, Clock, Costly, lone


def test_drafters_that_a_request_names_win_and_lose_nothing_for_others() -> None:
    _, union = lone(call=5 * STEP)
    before = union.policies["a"].balance
    Answers(union, drafters=("a",)).run(BAD, 20)
    assert union.policies["a"].balance == before


def test_what_a_bounded_request_loses_is_its_own_and_ends_its_drafts() -> None:
    drafter, union = lone(call=5 * STEP)
    before = union.policies["a"].balance
    Answers(union, max_drafted=3).run(BAD, 20)
    assert union.policies["a"].balance == before
    assert 0 < drafter.asked < 5


@pytest.mark.parametrize(
    ("bound", "is_bounded"),
    [
        ({"max_drafted": 4}, True),
        ({"max_drafted": 5}, False),
        ({"widths": (1,)}, True),
        ({"widths": (2,)}, True),
        ({"widths": (2, 1, 1)}, False),
        ({"widths": (8,) * 16}, False),
        ({"max_drafted": 5, "widths": (1, 1)}, True),
        ({}, False),
    ],
)
def test_a_bound_that_changes_nothing_is_none(bound: dict[str, Any], *, is_bounded: bool) -> None:
    """The engine drafts at most five tokens, a tree of widths (2, 1)."""
    drafter = Costly("a", Clock(), call=5 * STEP)
    drafter.widths = (2, 1)
    union = DrafterUnion([drafter], drafter.clock, widest_draft=5)
    before = union.policies["a"].balance
    Answers(union, **bound).run(BAD, 20)
    assert (union.policies["a"].balance == before) is is_bounded


def test_widths_bound_only_who_has_some() -> None:
    _, union = lone(call=5 * STEP)
    before = union.policies["a"].balance
    Answers(union, widths=(1,)).run(BAD, 20)
    assert union.policies["a"].balance < before


class ByNode(Costly):
    """Takes equal time for each sequence and for each token that it drafts."""

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        before = sum(draft.builder.last_node for draft in drafts)
        super().propose(drafts)
        added = sum(draft.builder.last_node for draft in drafts) - before
        self.clock.now += round(1e9 * 0.01 * STEP * (len(drafts) + added))


def test_who_has_less_drafted_makes_it_no_cheaper_for_others() -> None:
    """In one call for two sequences, one gets four drafted tokens and the other a single one."""
    drafter = ByNode("a", Clock())
    union = DrafterUnion([drafter], drafter.clock)
    answers = Answers(union, 2, rooms=(32, 1))
    bounded = union.open(draft_context(max_drafted=1))
    assert isinstance(bounded, UnionDraftState)
    answers.draft_states[1] = bounded
    for _ in range(10):
        answers.step(GOOD, GOOD)
    whole, least = (
        times.seconds(2) / 2 for times in (union.policies["a"].times, bounded.times("a"))
    )
    assert whole == pytest.approx(0.05 * STEP)
    assert least == pytest.approx(0.02 * STEP)
    alone = Answers(union, rooms=(1,), max_drafted=1)
    alone.run(BAD, 10)
    assert union.policies["a"].times.seconds(1) == 2 * whole, "nothing of it was learned"


def test_what_others_know_of_a_dear_drafter_holds_for_a_bounded_request_at_first() -> None:
    drafter, union = lone(call=5 * STEP)
    for _ in range(4):
        Answers(union).run(BAD, 10)
    drafter.asked = 0
    Answers(union, max_drafted=3).run(BAD, 10)
    assert drafter.asked == 0


def test_where_nothing_may_be_drafted_no_drafter_is_opened() -> None:
    class Opened(OneByOne):
        def open(self, context: DraftContext) -> DraftState | None:
            raise AssertionError(context)

    assert DrafterUnion([Opened()]).open(draft_context(max_drafted=0)) is None


def test_a_proposal_is_judged_once() -> None:
    matcher: Any = AnythingMatcher()
    a, b = spell_bytes(b"xy")
    tree = DraftTree((a, b), (None, 0), (True, False), (matcher, matcher), ("", "other"))
    proposals = JudgedProposals(AcceptanceRates({"kind": 0.5}))
    proposals.record(0, b, "kind")
    step = verified(tree, Acceptance((0, 1), None, budget_limited=False))
    assert proposals.learn(step)
    assert not proposals.learn(step)
    assert proposals.rates.judged["kind"] == 1.0


def test_states_are_wanted_where_a_drafter_of_the_request_wants_them() -> None:
    class Wants(OneByOne):
        name = "wants"
        wants_hidden_states = True

    union = DrafterUnion([OneByOne(), Wants()])
    for name, wanted in (("one by one", False), ("wants", True)):
        draft_state = union.open(draft_context(drafters=(name,)))
        assert draft_state is not None
        assert draft_state.wants_hidden_states is wanted


def test_all_bits_of_a_packed_mask_are_counted() -> None:
    assert _count(np.array([-1, 1], np.int32)) == 33
