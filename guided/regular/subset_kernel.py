"""The subset construction (Rabin and Scott, 1959), compiled by numba.

A state of the deterministic automaton is a *subset*: the states of the NFA that the text so far
leads to. It keeps only those that something follows from, which are enough to distinguish subsets.
Subset 0 is that of the empty text; each subset is followed in the order of its number, and a new
subset gets the next number::

    NFA of (a|b)*b           members  1 4 | 1 4 5 |            subset 0 = {1, 4}, 1 = {1, 4, 5}
                             begin    0     2     5
                             slots    -1  1 -1 -1 ...          subsets by the hash of their members
                             label    -1    0                  0 where the text may end

    moves of the subsets     first    0     2     4
                             classes  a  b  a  b               see ``guided.regular.transitions``
                             targets  0  1  0  1

The arrays have to grow, but numba counts references at each use of an array that a loop replaces,
which would take most of the time. So ``_follow`` works on arrays of a fixed size, without counts,
and returns when one is full; ``subsets_of`` makes them longer and calls it again. The subset that
it stopped in is then followed from its beginning: what was found before is found again by its hash.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.regular.transitions import Moves, longer
from guided.runtime.kernel import inlined, kernel, making_kernel

__all__ = ["FOLLOWED", "TOO_MANY_STATES", "TOO_MUCH_WORK", "Links", "NfaArrays", "subsets_of"]

FOLLOWED: Final = 0
TOO_MANY_STATES: Final = 1
TOO_MUCH_WORK: Final = 2
_NO_ROOM: Final = -1
"""Outcomes; the last is no result: ``_follow`` has to be called again, with longer arrays."""


class Links(NamedTuple):
    """Moves without a symbol by source: those of ``s`` from ``first[s]`` up to ``first[s + 1]``."""

    first: NDArray[np.int32]
    targets: NDArray[np.int32]


class NfaArrays(NamedTuple):
    """An NFA; state 0 starts and ``final`` ends."""

    states: int
    final: int
    moves: Moves
    empties: Links
    starts: Links  # taken at the start of the text alone
    ends: Links  # taken at the end of the text alone


class _Subsets(NamedTuple):
    label: NDArray[np.int32]  # [room]
    begin: NDArray[np.int32]  # [room + 1]
    members: NDArray[np.int32]
    slots: NDArray[np.int32]  # a power of two, at least twice the room; -1 for an empty one


class _Scratch(NamedTuple):
    """Memory for the work on one subset; nothing in it is kept, except ``after_lone``."""

    mark: NDArray[np.int32]  # [states]: the stamp of the last queue that the state was put into
    queue: NDArray[np.int32]  # [states]
    head: NDArray[np.int32]  # [classes]: the first link of the moves that read it, else -1
    link_target: NDArray[np.int32]  # [links]
    link_next: NDArray[np.int32]  # [links]
    read: NDArray[np.int32]  # [classes]: those that have links
    after_lone: NDArray[np.int32]
    """By state of the NFA, the subset that a move to it alone leads to, which most moves do; -1
    if that is not known yet."""


class _Progress(NamedTuple):
    known: int  # subsets
    done: int  # those of them whose moves are complete
    moves: int
    work: int  # states and moves of the NFA looked at
    stamp: int
    """The last one used. Each subset takes one to three new ones, so that marks need not be wiped;
    bounded by the work, they stay within int32."""


@making_kernel
def subsets_of(
    nfa: NfaArrays, width: int, collapses: bool, most: int, most_work: int
) -> tuple[int, NDArray[np.int32], Moves, int]:
    """Build all subsets of an NFA; returns the outcome, their labels and moves, and the work.

    The outcome is FOLLOWED, TOO_MANY_STATES or TOO_MUCH_WORK; labels and moves are complete only
    with FOLLOWED. The moves read classes below ``width``. With ``collapses`` everything may follow
    a match, so all subsets with ``final`` in them become one. There may be ``most`` subsets; work
    is counted in states and moves of the NFA looked at, up to ``most_work``.
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
    room, moves_room = 64, max(4 * width, 256)
    label = np.empty(room, dtype=np.int32)
    begin = np.zeros(room + 1, dtype=np.int32)
    members = np.empty(max(4 * nfa.states, 64), dtype=np.int32)
    slots = np.full(4 * room, -1, dtype=np.int32)
    first = np.zeros(room + 1, dtype=np.int32)
    classes = np.empty(moves_room, dtype=np.int32)
    targets = np.empty(moves_room, dtype=np.int32)

    progress = _begin(nfa, collapses, scratch, _Subsets(label, begin, members, slots))
    outcome = _NO_ROOM
    while outcome == _NO_ROOM:
        if begin[progress.known] + nfa.states > len(members):
            members = longer(members, 2 * len(members) + nfa.states)
        if progress.known == room:
            room *= 2
            label, begin, first = (
                longer(label, room),
                longer(begin, room + 1),
                longer(first, room + 1),
            )
            # Places in the hash table depend on its size, so all subsets are entered again.
            slots = np.full(4 * room, -1, dtype=np.int32)
            _enter(_Subsets(label, begin, members, slots), progress.known)
        if progress.moves + width > moves_room:
            moves_room = 2 * moves_room + width
            classes, targets = longer(classes, moves_room), longer(targets, moves_room)
        outcome, progress = _follow(
            nfa,
            collapses,
            most,
            most_work,
            scratch,
            _Subsets(label, begin, members, slots),
            Moves(first, classes, targets),
            progress,
        )
    known, size = progress.known, progress.moves
    return (
        outcome,
        label[:known],
        Moves(first[: known + 1], classes[:size], targets[:size]),
        progress.work,
    )


@kernel
def _begin(nfa: NfaArrays, collapses: bool, scratch: _Scratch, subsets: _Subsets) -> _Progress:
    """Make subset 0, which is not looked up: no other is at the start of the text."""
    stamp = 1
    scratch.queue[0] = 0
    scratch.mark[0] = stamp
    size = _closed(nfa, True, scratch, stamp, 1)
    work = size
    is_final = scratch.mark[nfa.final] == stamp
    # A match at the very start: everything may follow it, so only the final state is kept.
    if collapses and is_final:
        scratch.queue[0], kept = nfa.final, 1
    else:
        kept = _kept(nfa, scratch.queue, size)
    _add(subsets, 0, scratch.queue, kept)
    subsets.label[0] = 0 if is_final else -1
    if not is_final and len(nfa.ends.targets):
        stamp += 1
        subsets.label[0], size = _label_at_end(nfa, True, scratch, stamp, kept)
        work += size
    return _Progress(1, 0, 0, work, stamp)


@kernel
def _follow(
    nfa: NfaArrays,
    collapses: bool,
    most: int,
    most_work: int,
    scratch: _Scratch,
    subsets: _Subsets,
    moves: Moves,
    progress: _Progress,
) -> tuple[int, _Progress]:
    """Follow subsets from where the last call stopped until all are done, or an array is full.

    Returns what ``subsets_of`` returns, or _NO_ROOM, and the progress to continue from. ``moves``
    are written up to the progress; the arrays in ``subsets`` and ``moves`` must be the same as in
    the last call, or longer copies.
    """
    head, queue, mark, after_lone = scratch.head, scratch.queue, scratch.mark, scratch.after_lone
    known, done, top, work_before, stamp = progress
    while done < known:
        top_before = top
        if top + len(head) > len(moves.classes):
            return _NO_ROOM, _Progress(known, done, top, work_before, stamp)
        moves.first[done] = top
        links, classes = _chain(nfa.moves, subsets, done, scratch)
        work = work_before + links + classes
        for turn in range(classes):
            index = scratch.read[turn]
            link = head[index]
            head[index] = -1
            # A class with a single move: the subset after it depends only on its target, and is
            # remembered in ``after_lone``.
            lone = scratch.link_target[link] if scratch.link_next[link] == -1 else -1
            if lone != -1 and after_lone[lone] != -1:
                moves.classes[top], moves.targets[top] = index, after_lone[lone]
                top += 1
                continue
            stamp += 1
            size = _closed(nfa, False, scratch, stamp, _linked(scratch, link, stamp))
            work += size
            if work > most_work:
                return TOO_MUCH_WORK, _Progress(known, done, top, work, stamp)
            is_final = mark[nfa.final] == stamp
            if collapses and is_final:
                # Only the end is marked, as subsets are compared by what is marked.
                stamp += 1
                queue[0], mark[nfa.final] = nfa.final, stamp
                kept = 1
            else:
                kept = _kept(nfa, queue, size)
                if kept == 0:
                    continue
            slot = _slot_of(subsets, queue, kept, mark, stamp)
            found = subsets.slots[slot]
            if found == -1:
                if known == most:
                    return TOO_MANY_STATES, _Progress(known, done, top, work, stamp)
                if _is_full(subsets, known, kept):
                    # This subset is followed again from its beginning in the next call: its moves
                    # and its work so far are undone, and ``head`` is left empty.
                    for later in range(turn + 1, classes):
                        head[scratch.read[later]] = -1
                    return _NO_ROOM, _Progress(known, done, top_before, work_before, stamp)
                found = known
                known += 1
                _add(subsets, found, queue, kept)
                subsets.slots[slot] = found
                subsets.label[found] = 0 if is_final else -1
                if not is_final and len(nfa.ends.targets):
                    # Last: it continues in ``queue``, under another stamp.
                    stamp += 1
                    subsets.label[found], size = _label_at_end(nfa, False, scratch, stamp, kept)
                    work += size
            moves.classes[top], moves.targets[top] = index, found
            top += 1
            if lone != -1:
                after_lone[lone] = found
        done += 1
        work_before = work
    moves.first[known] = top
    return FOLLOWED, _Progress(known, done, top, work_before, stamp)


@inlined
def _is_full(subsets: _Subsets, known: int, size: int) -> bool:
    """Return whether there is no room for one subset more, with ``size`` members."""
    is_full: bool = known == len(subsets.label)
    return is_full or subsets.begin[known] + size > len(subsets.members)


@inlined
def _chain(moves: Moves, subsets: _Subsets, subset: int, scratch: _Scratch) -> tuple[int, int]:
    """Link the moves of a subset that read the same class; returns the numbers of links and
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
def _linked(scratch: _Scratch, link: int, stamp: int) -> int:
    """Begin a queue with the targets of the links from ``link`` on, each once; returns its size."""
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
def _spread(links: Links, state: int, scratch: _Scratch, stamp: int, size: int) -> int:
    """Put the unmarked targets of a state's links into the queue; returns its new size.

    The queue has room for every state, and each state is put in once for each stamp.
    """
    for edge in range(links.first[state], links.first[state + 1]):
        target = links.targets[edge]
        if scratch.mark[target] != stamp:
            scratch.mark[target] = stamp
            scratch.queue[size] = target
            size += 1
    return size


@inlined
def _closed(nfa: NfaArrays, at_start: bool, scratch: _Scratch, stamp: int, size: int) -> int:
    """Complete the queue by what its states lead to without a symbol; returns its new size.

    The first ``size`` states must be marked with ``stamp``, as added states are. ``at_start`` says
    that the text so far is empty, so that links for its start may be taken.
    """
    place = 0
    while place < size:
        state = scratch.queue[place]
        size = _spread(nfa.empties, state, scratch, stamp, size)
        if at_start:
            size = _spread(nfa.starts, state, scratch, stamp, size)
        place += 1
    return size


@inlined
def _kept(nfa: NfaArrays, queue: NDArray[np.int32], size: int) -> int:
    """Move the states that something follows from to the front of the queue; returns their number.

    Those are ``final`` and states with moves, or with links for the end of the text. What others
    lead to without a symbol is in the queue itself, so they may be dropped.
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
    """0 if the text may end in the states of the queue, else -1; and how many were looked at.

    Links that are taken only at the end are taken now. The queue has the ``size`` states of the
    subset that ``_kept`` left at its front; it is added to, so the subset has to be recorded
    (``_add``) first. ``stamp`` must be a new one: the marks of the subset's own closure differ from
    these, and ``_slot_of`` needs them before.
    """
    queue = scratch.queue
    for place in range(size):
        scratch.mark[queue[place]] = stamp
    place = 0
    while place < size:
        state = queue[place]
        if state == nfa.final:
            return 0, size
        size = _spread(nfa.empties, state, scratch, stamp, size)
        size = _spread(nfa.ends, state, scratch, stamp, size)
        if at_start:
            size = _spread(nfa.starts, state, scratch, stamp, size)
        place += 1
    return -1, size


@inlined
def _add(subsets: _Subsets, number: int, queue: NDArray[np.int32], size: int) -> None:
    """Record the members of a new subset, the last one, for whose members there must be room.

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
def _slot_of(
    subsets: _Subsets, queue: NDArray[np.int32], size: int, mark: NDArray[np.int32], stamp: int
) -> int:
    """Return the slot of the subset in the queue: where it is, or where to enter it.

    All members must be marked with ``stamp``, and besides them only states that ``_kept`` drops:
    a known subset has none of these.
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


@making_kernel
def _enter(subsets: _Subsets, known: int) -> None:
    """Enter all subsets but subset 0 (see ``_begin``) into new slots, which must be all -1."""
    slots, begin = subsets.slots, subsets.begin
    mask = np.uint64(len(slots) - 1)
    for subset in range(1, known):
        slot = _hash(subsets.members, begin[subset], begin[subset + 1]) & mask
        while slots[slot] != -1:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = subset
