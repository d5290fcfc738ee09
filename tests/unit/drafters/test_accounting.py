"""What is booked, judged and counted concerns the drafters and the tree that it was about."""

from __future__ import annotations

from typing import Any

import numpy as np

from guided.decoding import Acceptance, DraftTree
from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.judged_proposals import JudgedProposals
from guided.drafters import DrafterUnion
from guided.drafters.heads.growth import _count
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import AnythingMatcher, spell_bytes
from tests.kit.draft_context import draft_context, verified
from tests.unit.drafters.test_policy import BAD, STEP, Answers, lone


def test_drafters_that_a_request_names_win_and_lose_nothing_for_others() -> None:
    _, union = lone(call=5 * STEP)
    before = union.policies["a"].balance
    Answers(union, drafters=("a",)).run(BAD, 20)
    assert union.policies["a"].balance == before


def test_what_a_bounded_request_loses_is_its_own_and_ends_its_drafts() -> None:
    drafter, union = lone(call=5 * STEP)
    before = union.policies["a"].balance
    Answers(union, is_bounded=True).run(BAD, 20)
    assert union.policies["a"].balance == before
    assert 0 < drafter.asked < 5


def test_a_proposal_is_judged_once() -> None:
    matcher: Any = AnythingMatcher()
    a, b = spell_bytes(b"xy")
    tree = DraftTree((a, b), (None, 0), (True, False), (matcher, matcher), ("", "other"))
    proposals = JudgedProposals(AcceptanceRates({"kind": 0.5}))
    proposals.note(0, b, "kind")
    step = verified(tree, Acceptance((0, 1), None, narrowed=False))
    assert proposals.learn(step)
    assert not proposals.learn(step)
    assert proposals.rates.judged["kind"] == 1.0


def test_states_are_wanted_where_a_drafter_of_the_request_wants_them() -> None:
    class Wants(OneByOne):
        name = "wants"
        wants_states = True

    union = DrafterUnion([OneByOne(), Wants()])
    for name, wanted in (("one by one", False), ("wants", True)):
        memory = union.open(draft_context(drafters=(name,)))
        assert memory is not None
        assert memory.wants_states is wanted


def test_all_bits_of_a_packed_mask_are_counted() -> None:
    assert _count(np.array([-1, 1], np.int32)) == 33
