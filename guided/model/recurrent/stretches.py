"""Cuts a batch into stretches: new tokens in a row that a mixer reads at once.

A segment is cut where its certain tokens end, because the state there is kept, where a checkpoint
is needed, and where a draft tree branches. Each stretch begins with the state of its sequence or of
an earlier stretch::

    certain          drafted
    p p p p p p │ p p │ a b ┬ c          stretches  pppppp, pp, ab, c, d e
    checkpoint ─┘           └ d e        levels     0       1   2   3  3

Stretches of one level and equal length are read together, so nothing is ever padded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from guided.model.batch import Segment, StepBatch

__all__ = ["SegmentStretches", "Stretch", "StretchPlan", "cut_batch"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tokens of one segment."""

    segment: int
    before: int | None
    """The stretch that it follows; ``None`` is the state of its sequence."""
    rows: tuple[int, ...]
    """In the packed row."""
    logged: int
    """Tokens of the sequence's log that are read before them."""
    level: int

    @property
    def length(self) -> int:
        """The number of tokens that a mixer reads."""
        return self.logged + len(self.rows)


@dataclass(frozen=True, slots=True)
class SegmentStretches:
    """The stretches of a segment after which the state is needed."""

    ended: int | None
    """That of its last certain token; ``None`` if it has none, and nothing is logged."""
    checkpoint: int | None
    drafted: tuple[int, ...]
    """The packed rows of its drafted tokens."""


@dataclass(frozen=True, slots=True)
class StretchPlan:
    """All stretches of a batch, each after those that it follows."""

    stretches: tuple[Stretch, ...]
    segments: tuple[SegmentStretches, ...]
    groups: tuple[tuple[int, ...], ...]
    """Stretches that can be read together, in an order in which every earlier state is known."""
    followed: frozenset[int]
    """Those that another stretch follows."""
    wanted: frozenset[int]
    """Those whose state is needed after the call."""


def cut_batch(batch: StepBatch, logged: Sequence[int], has_state: Sequence[bool]) -> StretchPlan:
    """Cut a batch; by segment, ``logged`` counts its log and ``has_state`` says if it has one."""
    stretches: list[Stretch] = []
    segments = []
    for number, (start, segment) in enumerate(zip(batch.starts, batch.segments, strict=True)):
        segments.append(_cut(stretches, number, segment, start, logged[number]))
    groups: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for index, stretch in enumerate(stretches):
        continues = stretch.before is not None or has_state[stretch.segment]
        groups[stretch.level, stretch.length, continues].append(index)
    wanted = [end for each in segments for end in (each.ended, each.checkpoint)]
    return StretchPlan(
        tuple(stretches),
        tuple(segments),
        tuple(tuple(groups[key]) for key in sorted(groups)),
        frozenset(one.before for one in stretches if one.before is not None),
        frozenset(end for end in wanted if end is not None),
    )


def _cut(
    stretches: list[Stretch], number: int, segment: Segment, start: int, logged: int
) -> SegmentStretches:
    """Append the stretches of one segment; return where they end.

    ``number`` is the segment's index in the batch, ``start`` its first packed row, ``logged`` how
    many tokens of the sequence's log are read before it.
    """
    assert not segment.earlier_depths, "a tree with recurrent layers is computed in one call"
    certain, count = segment.trunk_length, len(segment.tokens)

    def add(before: int | None, nodes: Sequence[int], logged: int = 0) -> int:
        level = 0 if before is None else stretches[before].level + 1
        rows = tuple(start + node for node in nodes)
        stretches.append(Stretch(number, before, rows, logged, level))
        return len(stretches) - 1

    ended = checkpoint = None
    if segment.checkpoint:
        ended = checkpoint = add(None, range(segment.checkpoint), logged)
        logged = 0
    if segment.checkpoint < certain or logged:
        ended = add(ended, range(segment.checkpoint, certain), logged)
    first = len(stretches)
    for before, nodes in _chains(segment):
        add(ended if before is None else first + before, nodes)
    return SegmentStretches(ended, checkpoint, tuple(range(start + certain, start + count)))


def _chains(segment: Segment) -> list[tuple[int | None, list[int]]]:
    """Return the drafted nodes, cut where they branch; each chain with the one that it follows.

    ``None`` is the end of the certain tokens.
    """
    parents = {
        node: _parent(segment, node) for node in range(segment.trunk_length, len(segment.tokens))
    }
    children = Counter(parents.values())
    chains: list[tuple[int | None, list[int]]] = []
    chain_of: dict[int, int] = {}
    for node, parent in parents.items():
        before = chain_of.get(parent)
        if before is not None and children[parent] == 1:
            chains[before][1].append(node)
            chain_of[node] = before
        else:
            chain_of[node] = len(chains)
            chains.append((before, [node]))
    return chains


def _parent(segment: Segment, node: int) -> int:
    """Return the node that another one follows; -1 if that is not in the segment."""
    if segment.ancestors is None:
        return node - 1
    # Parents come before their children, so the last of the ancestors is the parent.
    ancestors = np.flatnonzero(segment.ancestors[node, :node])
    return int(ancestors[-1]) if len(ancestors) else -1
