"""A draft tree knows its trunk, which nodes see which, and the nodes to decide."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.decoding import DraftTree
from guided.spec import TokenId
from tests.engine.finite_language import AnythingMatcher, WordMatcher

HERE: Any = AnythingMatcher()


def tree_of(parents: list[int | None], trunk: int = 1) -> DraftTree:
    """Tokens are numbered like their nodes; all after the trunk are drafted."""
    count = len(parents)
    return DraftTree(
        tokens=tuple(TokenId(node) for node in range(count)),
        parents=tuple(parents),
        certain=tuple(node < trunk for node in range(count)),
        matchers=tuple(None if node < trunk - 1 else HERE for node in range(count)),
        sources=tuple("" if node < trunk else "test" for node in range(count)),
    )


def changed(tree: DraftTree, **columns: Any) -> DraftTree:
    """The same tree with other columns."""
    names = ("tokens", "parents", "certain", "matchers", "sources", "draws", "scouts")
    return DraftTree(**({name: getattr(tree, name) for name in names} | columns))


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    count = draw(st.integers(1, 9))
    return tree_of([None, *(draw(st.integers(0, node - 1)) for node in range(1, count))])


def test_a_chain_is_all_trunk_and_decides_behind_its_last_node() -> None:
    chain = DraftTree.chain([TokenId(5), TokenId(6), TokenId(7)], HERE)
    chain.check()
    assert chain.parents == (None, 0, 1)
    assert (chain.trunk_length, chain.is_chain, chain.nodes_needing_logits) == (3, True, (2,))


def test_a_chain_with_more_certain_tokens_to_come_decides_nothing() -> None:
    chain = DraftTree.chain([TokenId(5), TokenId(6)], None)
    chain.check()
    assert chain.nodes_needing_logits == ()


def test_nothing_is_decided_where_the_answer_is_complete_or_a_run_follows() -> None:
    done: Any = WordMatcher.of([""])
    tree = changed(
        tree_of([None, 0, 1, 0]),
        certain=(True, False, True, False),
        matchers=(HERE, HERE, HERE, done),
    )
    tree.check()
    assert tree.nodes_needing_logits == (0, 2)


def with_scouts(**columns: Any) -> DraftTree:
    """A trunk of two, a draft, and two scouts after the trunk, the first like the draft."""
    tree = changed(
        tree_of([None, 0, 1, 1, 3], trunk=2),
        tokens=tuple(map(TokenId, (1, 2, 3, 3, 4))),
        matchers=(HERE, HERE, HERE, None, None),
        scouts={3: False, 4: True},
    )
    return changed(tree, **columns)


def test_scouts_are_computed_and_no_part_of_the_draft() -> None:
    tree = with_scouts()
    tree.check()
    assert tree.trunk_length == 2
    assert tree.drafted == (2,)
    assert tree.children() == ((1,), (2,), (), (), ())
    assert tree.nodes_needing_logits == (1, 2, 4)
    assert tree.depths() == (0, 1, 2, 2, 3)
    assert list(tree.ancestors()[4]) == [True, True, False, True, True]


@given(trees())
def test_a_node_sees_itself_and_what_its_parent_sees(tree: DraftTree) -> None:
    tree.check()
    sees = tree.ancestors()
    for node in range(len(tree)):
        line, at = set(), node
        while True:
            line.add(at)
            parent = tree.parents[at]
            if parent is None:
                break
            at = parent
        assert set(sees[node].nonzero()[0].tolist()) == line
        assert tree.depths()[node] == len(line) - 1


@given(trees())
def test_a_tree_is_a_chain_when_no_node_has_two_children(tree: DraftTree) -> None:
    expected = all(tree.parents[node] == node - 1 for node in range(1, len(tree)))
    assert tree.is_chain == expected


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (tree_of([]), "without nodes"),
        (tree_of([0, 0]), "the first node is not the root"),
        (tree_of([None, None]), "a second root"),
        (tree_of([None, 2, 0]), "node 1 precedes its parent"),
        (tree_of([None], trunk=0), "the root is not certain"),
        (changed(tree_of([None, 0, 0]), tokens=(TokenId(0),) + (TokenId(9),) * 2), "twice"),
        (changed(tree_of([None, 0, 0]), certain=(True, False, True)), "drafted where another"),
        (
            changed(tree_of([None, 0, 0]), certain=(True, True, True)),
            "node 0 has two certain children",
        ),
        (changed(tree_of([None, 0]), matchers=(HERE, None)), "has no matcher"),
        (changed(tree_of([None, 0]), matchers=(HERE,)), "differ in length"),
        (with_scouts(scouts={3: True}), "node 4 is drafted after a scout"),
        (with_scouts(parents=(None, 0, 1, 2, 3)), "scout 3 follows a draft"),
        (with_scouts(matchers=(HERE,) * 5), "scout 3 has a matcher"),
    ],
)
def test_a_broken_tree_is_named(broken: DraftTree, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        broken.check()
