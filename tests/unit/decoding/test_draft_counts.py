"""Drafted tokens are counted for the drafter that proposed them, and once for all."""

from __future__ import annotations

import pytest

from guided.decoding.draft_counts import DraftCounts
from guided.decoding.draft_tree import DraftTree
from guided.spec import DrafterUsage, TokenId

#                 0 > ─┬─ 1 a ─── 2 (forced) ─┬─ 3 a
#                      │                      └─ 4 b
#                      └─ 5 b
TREE = DraftTree(
    tokens=tuple(map(TokenId, (9, 1, 2, 3, 4, 5))),
    parents=(None, 0, 1, 2, 2, 0),
    certain=(True, False, True, False, False, False),
    matchers=(None,) * 6,
    sources=("", "a", "a", "a", "b", "b"),
)


def counted(path: tuple[int, ...], *, is_followed: bool = True) -> DraftCounts:
    counts = DraftCounts()
    counts.add(TREE, path, path_ends_in_choice=is_followed)
    return counts


@pytest.mark.parametrize(
    ("path", "is_followed", "accepted", "corrected"),
    [
        # By a, by b, in all: accepted tokens, and whether the call corrected their drafts.
        ((0,), True, (0, 0, 0), (1, 1, 1)),
        ((0, 1, 2), True, (1, 0, 1), (1, 1, 1)),
        ((0, 1, 2), False, (1, 0, 1), (0, 0, 0)),
        ((0, 1, 2, 3), True, (2, 0, 2), (0, 0, 0)),
        ((0, 1, 2, 4), True, (1, 1, 2), (0, 0, 0)),
        ((0, 5), True, (0, 1, 1), (0, 0, 0)),
    ],
)
def test_a_tree_of_two_drafters(
    path: tuple[int, ...],
    is_followed: bool,
    accepted: tuple[int, int, int],
    corrected: tuple[int, int, int],
) -> None:
    counts = counted(path, is_followed=is_followed)
    a, b = counts.by_drafter()
    assert (a.name, a.drafted_tokens, a.drafted_calls) == ("a", 2, 1)
    assert (b.name, b.drafted_tokens, b.drafted_calls) == ("b", 2, 1)
    assert (counts.total.tokens, counts.total.calls) == (4, 1)
    assert (a.accepted_tokens, b.accepted_tokens, counts.total.accepted) == accepted
    assert (a.corrected_calls, b.corrected_calls, counts.total.corrected) == corrected


def test_only_who_drafted_where_the_path_ended_is_corrected() -> None:
    lone = DraftTree(
        tokens=TREE.tokens[:5],
        parents=(None, 0, 1, 2, 2),
        certain=TREE.certain[:5],
        matchers=TREE.matchers[:5],
        sources=("", "a", "a", "b", "b"),
    )
    counts = DraftCounts()
    counts.add(lone, (0, 1, 2), path_ends_in_choice=True)
    a, b = counts.by_drafter()
    assert (a.corrected_calls, b.corrected_calls, counts.total.corrected) == (0, 1, 1)


def test_time_is_counted_for_who_proposed_nothing_too() -> None:
    counts = DraftCounts()
    counts.add(DraftTree.chain([TokenId(1)], None), (0,), path_ends_in_choice=True)
    counts.add_proposal_time({"a": 5}, ["b"])
    counts.add_proposal_time({"a": 7, "b": 1}, [])
    assert counts.by_drafter() == (
        DrafterUsage("a", draft_nanoseconds=12),
        DrafterUsage("b", skipped_calls=1, draft_nanoseconds=1),
    )
    assert (counts.total.tokens, counts.total.calls) == (0, 0)
