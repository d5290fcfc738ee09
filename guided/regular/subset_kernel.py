"""The subset construction (Rabin and Scott, 1959), compiled by numba.

A state of the deterministic automaton is a *subset*: the states of the NFA that the text so far
leads to. Only the *important* ones are stored, those with moves or at an end (Aho et al.,
Compilers, section 3.9.1), which are enough to distinguish subsets. Subset 0 is that of the empty
text; the moves of subsets are found in the order of their numbers, and a new subset gets the next
number::

    NFA of (a|b)*b           members  1 4 | 1 4 5 |            subset 0 = {1, 4}, 1 = {1, 4, 5}
                             begin    0     2     5
                             slots    -1  1 -1 -1 ...          subsets by the hash of their members
                             label    -1    0                  0 where the text may end

    moves of the subsets     first    0     2     4
                             classes  a  b  a  b               see ``guided.regular.transitions``
                             targets  0  1  0  1

The arrays have to grow, but numba counts references at each use of an array that a loop replaces,
which would take most of the time. So ``_follow`` works on arrays of a fixed size, without counts,
and returns when one is full; ``build_subsets`` makes them longer and calls it again. The moves of
the subset that it stopped in are then found again from the first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import Moves, grow
from guided.runtime.kernel import allocating_kernel, inlined, kernel

__all__ = [
    "COMPLETE",
    "TOO_MANY_STATES",
    "TOO_MUCH_WORK",
    "EdgesBySource",
    "NfaArrays",
    "build_subsets",
]

COMPLETE: Final = 0
TOO_MANY_STATES: Final = 1
TOO_MUCH_WORK: Final = 2
_ARRAY_FULL: Final = -1
"""Outcomes; with the last one, ``_follow`` has to be called again with longer arrays."""


class EdgesBySource(NamedTuple):
    """Edges that read nothing: those of state ``s`` from ``first[s]`` up to ``first[s + 1]``."""

    first: NDArray[np.int32]
    targets: NDArray[np.int32]


class NfaArrays(NamedTuple):
    """An NFA without look-around; state 0 starts and ``final`` accepts."""

    states: int
    final: int
    moves: Moves
    epsilons: EdgesBySource
    starts: EdgesBySource  # taken at the start of the text alone
    ends: EdgesBySource  # taken at the end of the text alone


class _Subsets(NamedTuple):
    """The subsets so far; see the example above."""

    label: NDArray[np.int32]  # [capacity]
    begin: NDArray[np.int32]  # [capacity + 1]
    members: NDArray[np.int32]
    slots: NDArray[np.int32]  # a power of two, at least twice the capacity; -1 for an empty one


class _Scratch(NamedTuple):
    """Memory for the work on one subset; only ``subset_of_single`` is kept from one to the next."""

    mark: NDArray[np.int32]  # [states]: the stamp of the last queue that the state was put into
    queue: NDArray[np.int32]  # [states]
    head: NDArray[np.int32]  # [classes]: a linked list of the moves that read it; -1 for none
    link_target: NDArray[np.int32]  # [links]
    link_next: NDArray[np.int32]  # [links]
    read: NDArray[np.int32]  # [classes]: those that have links
    subset_of_single: NDArray[np.int32]
    """By state of the NFA, the subset of a text that leads only to it, as most moves do; -1 if not
    known yet."""


class _Progress(NamedTuple):
    """What ``_follow`` has done so far."""

    num_subsets: int
    num_followed: int  # subsets whose moves are complete
    num_moves: int
    work: int  # states and moves of the NFA visited
    stamp: int
    """The last one used. Finding the target of a move takes at most two new ones, so that marks
    need not be cleared; bounded by the work, they stay within int32."""


@allocating_kernel
def build_subsets(
    nfa: NfaArrays, width: int, search: bool, max_subsets: int, max_work: int
) -> tuple[int, NDArray[np.int32], Moves, int]:
    """Build all subsets of an NFA; returns the outcome, their labels and moves, and the work.

    The outcome is COMPLETE, TOO_MANY_STATES or TOO_MUCH_WORK; labels and moves are complete only
    with COMPLETE. The moves read classes below ``width``. With ``search`` the NFA must have a loop
    at ``final`` that reads anything: all subsets with ``final`` then accept the same texts, and
    become one, except subset 0. There may be ``max_subsets`` subsets; work is the number of states
    and moves of the NFA visited, up to ``max_work``.
    """
    scratch = _Scratch(
        np.zeros(nfa.states, dtype=np.int32),
        np.empty(nfa.states, dtype=np.int32),
        np.full(width, -1, dtype=np.int32),
        np.empty(len(nfa.moves.targets), dtype=np.int32),
        np.empty(len(nfa.moves.targets), dtype=np.int32),
        np.empty(width, dtype=np.int32),
        np.full(nfa.states, -1, dtype=np.int32),
    )
    capacity, moves_capacity = 64, max(4 * width, 256)
    label = np.empty(capacity, dtype=np.int32)
    begin = np.zeros(capacity + 1, dtype=np.int32)
    members = np.empty(max(4 * nfa.states, 64), dtype=np.int32)
    slots = np.full(4 * capacity, -1, dtype=np.int32)
    first = np.zeros(capacity + 1, dtype=np.int32)
    classes = np.empty(moves_capacity, dtype=np.int32)
    targets = np.empty(moves_capacity, dtype=np.int32)

    progress = _add_start(nfa, search, scratch, _Subsets(label, begin, members, slots))
    outcome = _ARRAY_FULL
    while outcome == _ARRAY_FULL:
        if begin[progress.num_subsets] + nfa.states > len(members):
            members = grow(members, 2 * len(members) + nfa.states)
        if progress.num_subsets == capacity:
            capacity *= 2
            label, begin, first = (
                grow(label, capacity),
                grow(begin, capacity + 1),
                grow(first, capacity + 1),
            )
            # Places in the hash table depend on its size, so all subsets are entered again.
            slots = np.full(4 * capacity, -1, dtype=np.int32)
            _fill_slots(_Subsets(label, begin, members, slots), progress.num_subsets)
        if progress.num_moves + width > moves_capacity:
            moves_capacity = 2 * moves_capacity + width
            classes, targets = grow(classes, moves_capacity), grow(targets, moves_capacity)
        outcome, progress = _follow(
            nfa,
            search,
            max_subsets,
            max_work,
            scratch,
            _Subsets(label, begin, members, slots),
            Moves(first, classes, targets),
            progress,
        )
    count, size = progress.num_subsets, progress.num_moves
    return (
        outcome,
        label[:count],
        Moves(first[: count + 1], classes[:size], targets[:size]),
        progress.work,
    )


@kernel
def _add_start(nfa: NfaArrays, search: bool, scratch: _Scratch, subsets: _Subsets) -> _Progress:
    """Add subset 0, which has no slot: no other is at the start of the text.

    The same states reached later are another subset, with a label of its own, as in ``a*$^``, which
    accepts the empty text but not ``a``.
    """
    stamp = 1
    scratch.queue[0] = 0
    scratch.mark[0] = stamp
    size = _close_queue(nfa, True, scratch, stamp, 1)
    work = size
    is_final = scratch.mark[nfa.final] == stamp
    # A match of the empty text: whatever follows is accepted, so no other state has to be followed.
    if search and is_final:
        scratch.queue[0], kept = nfa.final, 1
    else:
        kept = _keep_important(nfa, scratch.queue, size)
    _write_members(subsets, 0, scratch.queue, kept)
    subsets.label[0] = 0 if is_final else -1
    if not is_final and len(nfa.ends.targets):
        stamp += 1
        subsets.label[0], size = _label_at_end(nfa, True, scratch, stamp, kept)
        work += size
    return _Progress(1, 0, 0, work, stamp)


@kernel
def _follow(
    nfa: NfaArrays,
    search: bool,
    max_subsets: int,
    max_work: int,
    scratch: _Scratch,
    subsets: _Subsets,
    moves: Moves,
    progress: _Progress,
) -> tuple[int, _Progress]:
    """Find the moves of subsets, from where the last call stopped, until an array is full.

    Returns the outcome of ``build_subsets`` or _ARRAY_FULL, after which alone another call may
    follow, and the progress. ``scratch`` must be the same in each call; the arrays in ``subsets``
    and ``moves`` the same or longer copies, but longer ``slots`` are filled anew (``_fill_slots``).
    """
    head, queue, mark = scratch.head, scratch.queue, scratch.mark
    subset_of_single = scratch.subset_of_single
    num_subsets, num_followed, top, work_before, stamp = progress
    while num_followed < num_subsets:
        top_before = top
        if top + len(head) > len(moves.classes):
            return _ARRAY_FULL, _Progress(num_subsets, num_followed, top, work_before, stamp)
        moves.first[num_followed] = top
        links, classes = _link_by_class(nfa.moves, subsets, num_followed, scratch)
        work = work_before + links + classes
        for turn in range(classes):
            index = scratch.read[turn]
            link = head[index]
            head[index] = -1
            # A class with a single move: the subset after it depends only on its target.
            single = scratch.link_target[link] if scratch.link_next[link] == -1 else -1
            if single != -1 and subset_of_single[single] != -1:
                moves.classes[top], moves.targets[top] = index, subset_of_single[single]
                top += 1
                continue
            stamp += 1
            size = _close_queue(nfa, False, scratch, stamp, _queue_linked(scratch, link, stamp))
            work += size
            if work > max_work:
                return TOO_MUCH_WORK, _Progress(num_subsets, num_followed, top, work, stamp)
            is_final = mark[nfa.final] == stamp
            if search and is_final:
                # Only the final state is marked, as ``_find_slot`` compares subsets by their marks.
                stamp += 1
                queue[0], mark[nfa.final] = nfa.final, stamp
                kept = 1
            else:
                kept = _keep_important(nfa, queue, size)
                if kept == 0:
                    continue
            slot = _find_slot(subsets, queue, kept, mark, stamp)
            found = subsets.slots[slot]
            if found == -1:
                if num_subsets == max_subsets:
                    return TOO_MANY_STATES, _Progress(num_subsets, num_followed, top, work, stamp)
                if _is_full(subsets, num_subsets, kept):
                    # Undone, with ``head`` empty: the next call finds all moves of this subset.
                    for later in range(turn + 1, classes):
                        head[scratch.read[later]] = -1
                    top, work = top_before, work_before
                    return _ARRAY_FULL, _Progress(num_subsets, num_followed, top, work, stamp)
                found = num_subsets
                num_subsets += 1
                _write_members(subsets, found, queue, kept)
                subsets.slots[slot] = found
                subsets.label[found] = 0 if is_final else -1
                if not is_final and len(nfa.ends.targets):
                    # Last: it continues in ``queue``, under another stamp.
                    stamp += 1
                    subsets.label[found], size = _label_at_end(nfa, False, scratch, stamp, kept)
                    work += size
            moves.classes[top], moves.targets[top] = index, found
            top += 1
            if single != -1:
                subset_of_single[single] = found
        num_followed += 1
        work_before = work
    moves.first[num_subsets] = top
    return COMPLETE, _Progress(num_subsets, num_followed, top, work_before, stamp)


@inlined
def _is_full(subsets: _Subsets, num_subsets: int, size: int) -> bool:
    """Return whether there is no room for one subset more, with ``size`` members."""
    is_full: bool = num_subsets == len(subsets.label)
    return is_full or subsets.begin[num_subsets] + size > len(subsets.members)


@inlined
def _link_by_class(
    moves: Moves, subsets: _Subsets, subset: int, scratch: _Scratch
) -> tuple[int, int]:
    """List the moves of a subset by class, as linked lists; returns the numbers of links and
    classes.

    ``scratch.read`` gets the classes, ``scratch.head`` by class its first link. The caller sets
    ``head`` back to -1 for all of these classes: it must be -1 everywhere before the next call.
    """
    links, size = 0, 0
    for place in range(subsets.begin[subset], subsets.begin[subset + 1]):
        state = subsets.members[place]
        for edge in range(moves.first[state], moves.first[state + 1]):
            index = moves.classes[edge]
            before = scratch.head[index]
            scratch.link_target[links], scratch.link_next[links] = moves.targets[edge], before
            if before == -1:
                scratch.read[size] = index
                size += 1
            scratch.head[index] = links
            links += 1
    return links, size


@inlined
def _queue_linked(scratch: _Scratch, link: int, stamp: int) -> int:
    """Start the queue with the targets of the links from ``link`` on; returns its size."""
    size = 0
    while link != -1:
        target = scratch.link_target[link]
        if scratch.mark[target] != stamp:
            scratch.mark[target] = stamp
            scratch.queue[size] = target
            size += 1
        link = scratch.link_next[link]
    return size


@inlined
def _queue_targets(
    edges: EdgesBySource, state: int, scratch: _Scratch, stamp: int, size: int
) -> int:
    """Add the unmarked targets of a state's edges to the queue; returns its new size.

    The queue has room for every state, and each state is put in once for each stamp.
    """
    for edge in range(edges.first[state], edges.first[state + 1]):
        target = edges.targets[edge]
        if scratch.mark[target] != stamp:
            scratch.mark[target] = stamp
            scratch.queue[size] = target
            size += 1
    return size


@inlined
def _close_queue(nfa: NfaArrays, at_start: bool, scratch: _Scratch, stamp: int, size: int) -> int:
    """Add the epsilon closure of its states to the queue; returns its new size.

    The first ``size`` states must be marked with ``stamp``, as added states are. ``at_start`` says
    that the text so far is empty, so that edges for its start may be taken.
    """
    place = 0
    while place < size:
        state = scratch.queue[place]
        size = _queue_targets(nfa.epsilons, state, scratch, stamp, size)
        if at_start:
            size = _queue_targets(nfa.starts, state, scratch, stamp, size)
        place += 1
    return size


@inlined
def _keep_important(nfa: NfaArrays, queue: NDArray[np.int32], size: int) -> int:
    """Move the important states to the front of the queue; returns their number.

    Those are ``final`` and states with moves, or with edges for the end of the text. The queue is
    an epsilon closure, so what the others lead to is in it.
    """
    kept = 0
    for place in range(size):
        state = queue[place]
        if (
            state == nfa.final
            or nfa.moves.first[state] < nfa.moves.first[state + 1]
            or nfa.ends.first[state] < nfa.ends.first[state + 1]
        ):
            queue[kept] = state
            kept += 1
    return kept


@inlined
def _label_at_end(
    nfa: NfaArrays, at_start: bool, scratch: _Scratch, stamp: int, size: int
) -> tuple[int, int]:
    """Return 0 if the text may end in the states of the queue, else -1; and how many were visited.

    Edges that may be taken only at the end are taken now. The queue has the ``size`` states of the
    subset at its front, where they stay; others are added after them. ``stamp`` must be a new one:
    the marks of the subset's own closure differ from these, and ``_find_slot`` needs them before.
    """
    queue = scratch.queue
    for place in range(size):
        scratch.mark[queue[place]] = stamp
    place = 0
    while place < size:
        state = queue[place]
        if state == nfa.final:
            return 0, size
        size = _queue_targets(nfa.epsilons, state, scratch, stamp, size)
        size = _queue_targets(nfa.ends, state, scratch, stamp, size)
        if at_start:
            size = _queue_targets(nfa.starts, state, scratch, stamp, size)
        place += 1
    return -1, size


@inlined
def _write_members(subsets: _Subsets, number: int, queue: NDArray[np.int32], size: int) -> None:
    """Store the members of a new subset, the last one; there must be room for them.

    The caller writes its label and its slot.
    """
    begin = subsets.begin[number]
    for place in range(size):
        subsets.members[begin + place] = queue[place]
    subsets.begin[number + 1] = begin + size


@inlined
def _hash(members: NDArray[np.int32], begin: int, end: int) -> np.uint64:
    """Return a hash that ignores the order, as the members of equal subsets may differ in it."""
    value = np.uint64(0)
    for at in range(begin, end):
        mixed = np.uint64(members[at] + 1) * np.uint64(0x9E3779B97F4A7C15)
        value += mixed ^ (mixed >> np.uint64(29))
    return value * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(20)


@inlined
def _find_slot(
    subsets: _Subsets, queue: NDArray[np.int32], size: int, mark: NDArray[np.int32], stamp: int
) -> int:
    """Return the slot of the subset in the queue: where it is, or where to enter it.

    All members must be marked with ``stamp``, and besides them only states that are not important:
    stored subsets have none of these.
    """
    slots, begin, members = subsets.slots, subsets.begin, subsets.members
    mask = np.uint64(len(slots) - 1)
    slot = _hash(queue, 0, size) & mask
    while slots[slot] != -1:
        other = slots[slot]
        if begin[other + 1] - begin[other] == size:
            # Of the same size, and all of its members are marked: it is the same.
            place = begin[other]
            while place < begin[other + 1] and mark[members[place]] == stamp:
                place += 1
            if place == begin[other + 1]:
                break
        slot = (slot + np.uint64(1)) & mask
    return int(slot)


@allocating_kernel
def _fill_slots(subsets: _Subsets, num_subsets: int) -> None:
    """Enter all subsets but subset 0 (see ``_add_start``) into new slots, which must be all -1."""
    slots, begin = subsets.slots, subsets.begin
    mask = np.uint64(len(slots) - 1)
    for subset in range(1, num_subsets):
        slot = _hash(subsets.members, begin[subset], begin[subset + 1]) & mask
        while slots[slot] != -1:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = subset
