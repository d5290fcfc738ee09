"""Several drafters add to one tree, in their order, and only where a request allows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from guided.decoding import DraftBudget, DraftBuilder, DraftRequest, DraftTree
from guided.drafters import DrafterUnion
from guided.spec import Forcing, TokenId
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import END_IDS, AnythingMatcher, spell_bytes
from tests.kit.draft_context import draft_context


class Says(OneByOne):
    """Drafts one text, whatever came before."""

    def __init__(self, name: str, text: bytes) -> None:
        self.name = name
        self.text = spell_bytes(text)
        self.ended: list[tuple[TokenId, ...]] = []

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        node: int | None = builder.root
        for token in self.text:
            if node is not None:
                added = builder.add(node, token)
                node = builder.find(node, token) if added is None else added

    def end(self, tokens: Sequence[TokenId]) -> None:
        self.ended.append(tuple(tokens))


def drafted(union: DrafterUnion, **context: Any) -> DraftTree | None:
    draft_state = union.open(draft_context(**context))
    if draft_state is None:
        return None
    matcher: Any = AnythingMatcher()
    builder = DraftBuilder(
        DraftTree.chain(spell_bytes(b">"), matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(16),
        tokens_left=100,
        end_ids=END_IDS,
    )
    union.propose([DraftRequest(spell_bytes(b">"), draft_state, builder)])
    tree = builder.tree()
    tree.check()
    return tree


def test_equal_proposals_are_one_node_of_the_first_that_made_it() -> None:
    tree = drafted(DrafterUnion([Says("a", b"xyz"), Says("b", b"xyq")]))
    assert tree is not None
    assert tree.tokens == spell_bytes(b">xyzq")
    assert tree.parents == (None, 0, 1, 2, 2)
    assert tree.sources == ("", "a", "a", "a", "b")


@pytest.mark.parametrize(
    ("context", "sources"),
    [
        ({}, {"a", "b"}),
        ({"drafters": ("b",)}, {"b"}),
        ({"drafters": ("c",)}, None),
        ({"forcing": Forcing.OFF}, None),
        ({"forcing": Forcing.OFF, "drafters": ("a",)}, {"a"}),
    ],
)
def test_a_request_says_which_of_them_draft(
    context: dict[str, Any], sources: set[str] | None
) -> None:
    tree = drafted(DrafterUnion([Says("a", b"x"), Says("b", b"y")]), **context)
    assert (None if tree is None else {*tree.sources} - {""}) == sources


def test_all_are_told_of_the_end() -> None:
    drafters = [Says("a", b"x"), Says("b", b"y")]
    draft_state = DrafterUnion(drafters).open(draft_context())
    assert draft_state is not None
    draft_state.end(spell_bytes(b"done"))
    assert [drafter.ended for drafter in drafters] == [[spell_bytes(b"done")]] * 2
