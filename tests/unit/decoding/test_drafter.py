"""A builder keeps proposals that are legal, new and worth it, with the runs that they force."""

from __future__ import annotations

from typing import Any

from guided.decoding import CostCurve, DraftBudget, DraftBuilder, DraftTree
from guided.spec import Forcing, TokenId
from tests.engine.finite_language import END_IDS, WordMatcher, spell_bytes

WORDS = ("~x12", "~y;", "~z")


def builder(room: int = 8, costs: CostCurve | None = None, longest: int = 8) -> DraftBuilder:
    """After the first character of three words."""
    first = spell_bytes(b"~")
    matcher: Any = WordMatcher.of(WORDS).advance(first[0])
    return DraftBuilder(
        DraftTree.chain(first, matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(room, costs),
        tokens_left=longest,
        end_ids=END_IDS,
    )


def token(text: bytes) -> TokenId:
    (only,) = spell_bytes(text)
    return only


def test_a_token_is_added_with_the_run_that_it_forces() -> None:
    growing = builder()
    tip = growing.add(growing.last_node, token(b"x"))
    assert tip is not None
    assert growing.path(0, tip) == [*spell_bytes(b"x"), *spell_bytes(b"12")]
    tree = growing.tree()
    tree.check()
    assert growing.find(0, token(b"x")) == tip
    assert tree.certain[1:] == (False, *(True,) * (len(tree) - 2))


def test_what_is_not_allowed_ends_the_answer_or_is_there_already_is_left_out() -> None:
    growing = builder()
    assert growing.add(0, token(b"q")) is None
    assert growing.add(0, min(END_IDS)) is None
    assert growing.add(0, token(b"z")) == 1
    assert growing.add(0, token(b"z")) is None
    assert (growing.find(0, token(b"z")), growing.find(0, token(b"x"))) == (1, None)
    assert growing.tree().tokens == (*spell_bytes(b"~"), *spell_bytes(b"z"))


def test_proposals_of_several_drafters_make_one_tree() -> None:
    growing = builder()
    for proposals in (b"yz", b"xzq"):
        for proposal in proposals:
            growing.add(0, token(bytes([proposal])))
    tree = growing.tree()
    tree.check()
    children = [tree.tokens[node] for node in tree.children()[0]]
    assert children == [token(b"y"), token(b"z"), token(b"x")]


def test_a_token_whose_run_has_no_room_is_left_out() -> None:
    for growing in (builder(room=1), builder(longest=1)):
        assert growing.add(0, token(b"x")) is None
        assert growing.add(0, token(b"z")) == 1


def test_a_token_that_costs_more_than_it_is_worth_is_left_out() -> None:
    growing = builder(costs=CostCurve(((1, 1.0), (2, 1.5), (8, 5.0))))
    assert growing.add(0, token(b"z"), chance=0.2) is None
    assert growing.add(0, token(b"z"), chance=0.9) == 1
