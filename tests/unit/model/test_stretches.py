"""A batch is cut only where a state is kept or a tree branches."""

from __future__ import annotations

import numpy as np

from guided.model.batch import Segment, StepBatch
from guided.model.recurrent.stretches import StretchPlan, cut_batch
from guided.spec import TokenId


def segment(
    parents: list[int | None], *, certain: int, checkpoint: int = 0, committed: int = 0
) -> Segment:
    sees = np.eye(len(parents), dtype=np.bool_)
    for node, parent in enumerate(parents):
        if parent is not None:
            sees[node] |= sees[parent]
    is_chain = all(parent == node - 1 for node, parent in enumerate(parents[1:], 1))
    return Segment(
        reservations=(),
        num_committed=committed,
        tokens=(TokenId(0),) * len(parents),
        depths=tuple(int(row.sum()) - 1 for row in sees),
        ancestors=None if is_chain else sees,
        nodes_needing_logits=(),
        trunk_length=certain,
        checkpoint=checkpoint,
    )


def chain(count: int) -> list[int | None]:
    return [None, *range(count - 1)]


def plan(*segments: Segment, logged: int = 0, has_state: bool = False) -> StretchPlan:
    count = len(segments)
    return cut_batch(StepBatch(segments), [logged] * count, [has_state] * count)


def rows(found: StretchPlan) -> list[tuple[tuple[int, ...], int | None]]:
    """The rows of each stretch, and the stretch before it."""
    return [(stretch.rows, stretch.before) for stretch in found.stretches]


def test_certain_tokens_are_one_stretch() -> None:
    found = plan(segment(chain(4), certain=4))
    assert rows(found) == [((0, 1, 2, 3), None)]
    assert found.segments[0].ended == 0
    assert found.segments[0].drafted == ()
    assert found.wanted == {0}


def test_a_checkpoint_cuts_them() -> None:
    found = plan(segment(chain(6), certain=6, checkpoint=4))
    assert rows(found) == [((0, 1, 2, 3), None), ((4, 5), 0)]
    assert (found.segments[0].checkpoint, found.segments[0].ended) == (0, 1)


def test_a_checkpoint_at_their_end_does_not() -> None:
    found = plan(segment(chain(4), certain=4, checkpoint=4))
    assert rows(found) == [((0, 1, 2, 3), None)]
    assert (found.segments[0].checkpoint, found.segments[0].ended) == (0, 0)


def test_a_drafted_chain_is_one_stretch_behind_them() -> None:
    found = plan(segment(chain(5), certain=2))
    assert rows(found) == [((0, 1), None), ((2, 3, 4), 0)]
    assert found.segments[0].drafted == (2, 3, 4)
    assert found.wanted == {0}


def test_a_tree_is_cut_where_it_branches() -> None:
    """``a b`` follow the certain token; after b come c, and d e."""
    found = plan(segment([None, 0, 1, 2, 2, 4], certain=1))
    assert rows(found) == [((0,), None), ((1, 2), 0), ((3,), 1), ((4, 5), 1)]
    assert [stretch.level for stretch in found.stretches] == [0, 1, 2, 2]
    assert found.followed == {0, 1}


def test_roots_side_by_side_follow_the_text() -> None:
    found = plan(segment([None, None, 1], certain=0), has_state=True)
    assert rows(found) == [((0,), None), ((1, 2), None)]
    assert found.segments[0].ended is None


def test_what_is_logged_is_read_first() -> None:
    found = plan(segment([None, None], certain=0), logged=3, has_state=True)
    assert rows(found) == [((), None), ((0,), 0), ((1,), 0)]
    assert [stretch.length for stretch in found.stretches] == [3, 1, 1]
    found = plan(segment(chain(3), certain=1), logged=2, has_state=True)
    assert [stretch.length for stretch in found.stretches] == [3, 2]


def test_only_equally_long_ones_of_a_level_are_read_together() -> None:
    one, two = segment(chain(1), certain=1), segment(chain(2), certain=2)
    found = plan(one, two, one, two)
    assert [stretch.rows for stretch in found.stretches] == [(0,), (1, 2), (3,), (4, 5)]
    assert sorted(found.groups) == [(0, 2), (1, 3)]


def test_what_has_read_nothing_is_read_apart() -> None:
    one = segment(chain(1), certain=1)
    found = cut_batch(StepBatch((one, one)), [0, 0], [False, True])
    assert sorted(found.groups) == [(0,), (1,)]
