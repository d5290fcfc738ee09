"""Non-deterministic automata over code points (Thompson, CACM 11(6), 1968)."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import CodePoints
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Intersection,
    Look,
    Regular,
    Repeat,
    SeparatedRepeat,
    Start,
)
from guided.regular.transitions import copy_moves
from guided.runtime.work_budget import pause_if_due, spend, with_pauses

__all__ = ["MAX_NFA_MOVES", "MAX_NFA_STATES", "Edges", "LookAround", "Nfa", "nfa_from_regular"]

MAX_NFA_STATES: Final = 100_000
"""Most states of one expression, with its repeats unrolled and its look-around."""
MAX_NFA_MOVES: Final = 16_000_000
"""Most moves of the graphs in one expression, with its repeats unrolled; twelve bytes each."""
_MOVES_PER_UNIT: Final = 100
"""Moves that are added to ``bulk`` for one unit of work."""
_MANY_PARTS: Final = 100
"""Parts of a node above which the construction may pause between them."""
_NO_MOVES: Final = np.empty((3, 0), dtype=np.int32)


class Edges:
    """Edges of an automaton, from ``sources[i]`` to ``targets[i]``."""

    __slots__ = ("sources", "targets")

    def __init__(self) -> None:
        self.sources: Final[list[int]] = []
        self.targets: Final[list[int]] = []

    def add(self, source: int, target: int) -> None:
        self.sources.append(source)
        self.targets.append(target)


class LookAround:
    """A look-around, whose texts lead from ``start`` to ``final`` in a separate part of the Nfa."""

    __slots__ = ("ahead", "final", "negative", "start")

    def __init__(self, start: int, final: int, ahead: bool, negative: bool) -> None:
        self.start: Final = start
        self.final: Final = final
        self.ahead: Final = ahead
        self.negative: Final = negative


class Nfa:
    """A non-deterministic automaton: states are numbers, state 0 starts and ``final`` accepts.

    ``sets`` numbers sets of code points, in its order, and move ``i`` reads one code point of the
    set with the number ``move_sets[i]``; ``bulk[:, :bulk_size]`` are more moves, added as whole
    arrays. All other edges read nothing. ``epsilons`` may be taken anywhere, ``starts`` and
    ``ends`` only at the start and at the end of the whole text, ``conditions`` only where a
    look-around holds: ``looks[condition_looks[i]]``. ``look_numbers`` has the number of each
    look-around in ``looks``, where equal ones are one and inner ones come first.
    """

    __slots__ = (
        "bulk",
        "bulk_size",
        "condition_looks",
        "conditions",
        "count",
        "ends",
        "epsilons",
        "final",
        "look_numbers",
        "looks",
        "move_sets",
        "moves",
        "sets",
        "starts",
    )

    def __init__(self) -> None:
        self.count = 0
        self.final = 0
        self.sets: Final[dict[CodePoints, int]] = {}
        self.moves: Final = Edges()
        self.move_sets: list[int] = []
        self.bulk: NDArray[np.int32] = _NO_MOVES
        """Sources, targets and sets of more moves, int32 ``[3, room]``."""
        self.bulk_size = 0
        self.epsilons: Final = Edges()
        self.starts: Final = Edges()
        self.ends: Final = Edges()
        self.conditions: Final = Edges()
        self.condition_looks: list[int] = []
        self.looks: Final[list[LookAround]] = []
        self.look_numbers: Final[dict[Look, int]] = {}

    def add_states(self, count: int = 1) -> int:
        """Add states, return the first one; raises LimitExceededError past MAX_NFA_STATES."""
        self.count += count
        if self.count > MAX_NFA_STATES:
            raise LimitExceededError(
                f"the expression needs more than {MAX_NFA_STATES} states",
                limit=MAX_NFA_STATES,
                hint="lower the bounds of its repeats, or list fewer and shorter texts",
            )
        return self.count - count

    def add_move(self, source: int, chars: CodePoints, target: int) -> None:
        self.moves.add(source, target)
        self.move_sets.append(self.sets.setdefault(chars, len(self.sets)))

    def add_moves(self, moves: NDArray[np.int32], first: int, sets: Items[CodePoints]) -> None:
        """Add many moves, int32 ``[3, moves]``: sources, targets and indices into ``sets``.

        State ``s`` of ``moves`` is state ``first + s`` here, which was already added.
        """
        numbers = [self.sets.setdefault(chars, len(self.sets)) for chars in sets]
        begin = self.reserve_bulk(moves.shape[1])
        copy_moves(self.bulk, begin, moves, first, np.array(numbers, dtype=np.int32))

    def reserve_bulk(self, size: int) -> int:
        """Make room for ``size`` more moves in ``bulk``, and return the index of the first.

        They count at once, so the caller writes them there before anything reads ``bulk``, which
        may be another array than before. Raises LimitExceededError past MAX_NFA_MOVES.
        """
        spend(size // _MOVES_PER_UNIT)
        if self.bulk_size + size > MAX_NFA_MOVES:
            raise LimitExceededError(
                f"the expression needs more than {MAX_NFA_MOVES} moves by classes of characters",
                limit=MAX_NFA_MOVES,
                hint="lower the bounds of its repeats, or list fewer and shorter texts",
            )
        begin = self.bulk_size
        self.bulk_size += size
        if self.bulk_size > self.bulk.shape[1]:
            larger = np.empty((3, 2 * self.bulk_size), dtype=np.int32)
            larger[:, :begin] = self.bulk[:, :begin]
            self.bulk = larger
        return begin


def nfa_from_regular(regular: Regular) -> Nfa:
    """Return the automaton of an expression; its size is the expression's with repeats unrolled.

    Raises LimitExceededError past MAX_NFA_STATES or MAX_NFA_MOVES, and ValueError for an
    ``Intersection`` in it.
    """
    nfa = Nfa()
    start = nfa.add_states()
    nfa.final = nfa.add_states()
    # They are separate, so that a repeat does not copy them; ``_build`` looks them up.
    _build_looks(nfa, regular)
    _build(nfa, regular, start, nfa.final)
    return nfa


def _build_looks(nfa: Nfa, node: Regular) -> None:
    """Add the automata of all look-around in an expression, inner ones first, equal ones once."""
    if isinstance(node, (Concat, Alternate)):
        for part in _pausing(node.parts if isinstance(node, Concat) else node.options):
            if not isinstance(part, Chars):
                _build_looks(nfa, part)
    elif isinstance(node, Repeat):
        _build_looks(nfa, node.item)
    elif isinstance(node, SeparatedRepeat):
        _build_looks(nfa, node.item)
        _build_looks(nfa, node.separator)
    elif isinstance(node, Look) and node not in nfa.look_numbers:
        _build_looks(nfa, node.item)
        entry = nfa.add_states(2)
        final = _build(nfa, node.item, entry, entry + 1)
        nfa.look_numbers[node] = len(nfa.looks)
        nfa.looks.append(LookAround(entry, final, node.ahead, node.negative))


def _pausing(parts: tuple[Regular, ...]) -> Iterable[Regular]:
    """Return the parts of a node; with pauses between them if there are many."""
    return with_pauses(parts) if len(parts) > _MANY_PARTS else parts


def _build(nfa: Nfa, node: Regular, start: int, end: int | None = None) -> int:
    """Add ``node`` from ``start`` to ``end``, and return that; without one, to any fitting state.

    Other nodes may share ``start`` and ``end``, so nothing leads back into ``start`` or on from
    ``end``; a node that needs that, such as a repeat, adds states for it.

    ``_build_looks`` has already built the look-around in ``node``. Both functions know the kinds of
    nodes that have parts: a new kind has to be added to both.
    """
    if isinstance(node, Concat):
        if not node.parts:
            return _link_to_end(nfa, start, end)
        for part in _pausing(node.parts[:-1]):
            start = _build(nfa, part, start)
        return _build(nfa, node.parts[-1], start, end)
    if isinstance(node, Repeat):
        return _build_repeat(nfa, node, start, end)
    if isinstance(node, SeparatedRepeat):
        return _build_separated_repeat(nfa, node, start, end)
    if isinstance(node, Graph):
        return _build_graph(nfa, node, start, end)
    if end is None:
        end = nfa.add_states()
    if isinstance(node, Chars):
        nfa.add_move(start, node.chars, end)
    elif isinstance(node, Alternate):
        for option in _pausing(node.options):
            _build(nfa, option, start, end)
    elif isinstance(node, Start):
        nfa.starts.add(start, end)
    elif isinstance(node, End):
        nfa.ends.add(start, end)
    elif isinstance(node, Look):
        nfa.conditions.add(start, end)
        nfa.condition_looks.append(nfa.look_numbers[node])
    else:
        assert isinstance(node, Intersection)
        raise ValueError("a condition on whole texts stands inside an expression")
    return end


def _build_repeat(nfa: Nfa, repeat: Repeat, start: int, end: int | None) -> int:
    """Add a repeat, as ``_build`` does."""
    low, high = repeat.low, repeat.high
    if high is not None and high <= 1:
        end = nfa.add_states() if end is None else end
        if high:
            _build(nfa, repeat.item, start, end)
        if not low:
            nfa.epsilons.add(start, end)
        return end
    # The item leads back to where it starts, so that has to be a separate state.
    entry = nfa.add_states()
    nfa.epsilons.add(start, entry)
    exit_ = _build_copies(nfa, repeat, entry)
    return _link_to_end(nfa, exit_, end)


def _build_copies(nfa: Nfa, repeat: Repeat, entry: int) -> int:
    """Add the states and moves of a repeat from ``entry`` on, a separate state; returns its end.

    ``entry`` must be the state that was added last: the item with its entry is then all states
    from there on. The item is built once. The other copies are its states and moves with their
    numbers shifted, which is many times as fast as building the item again.
    """
    # x{2,4} -> x x (x (x)?)?      x{2,} -> x x+
    low, high = repeat.low, repeat.high
    if high is None and not low:
        return _build(nfa, repeat.item, entry, entry)
    copies = low if high is None else high
    sizes_before = _list_sizes(nfa)
    exit_ = _build(nfa, repeat.item, entry)
    if copies == 1:  # x+, as upper bounds of 0 and 1 do not get here
        nfa.epsilons.add(exit_, entry)
        return exit_
    # Every copy begins with its own entry, so that copies differ only by ``size``.
    size = nfa.count - entry
    _copy_last_states(nfa, sizes_before, size, copies - 1)
    end = nfa.add_states()
    for copy in range(copies):
        here = entry + copy * size
        if copy >= low:
            nfa.epsilons.add(here, end)
        if copy + 1 < copies:
            nfa.epsilons.add(exit_ + copy * size, here + size)
    last = (copies - 1) * size
    if high is None:
        nfa.epsilons.add(exit_ + last, entry + last)
    nfa.epsilons.add(exit_ + last, end)
    return end


def _build_separated_repeat(nfa: Nfa, repeat: SeparatedRepeat, start: int, end: int | None) -> int:
    """Add a ``SeparatedRepeat``, as ``_build`` does: its separator leads back to the item."""
    entry = nfa.add_states()
    nfa.epsilons.add(start, entry)
    exit_ = _build(nfa, repeat.item, entry)
    _build(nfa, repeat.separator, exit_, entry)
    return _link_to_end(nfa, exit_, end)


def _build_graph(nfa: Nfa, graph: Graph, start: int, end: int | None) -> int:
    """Add a graph, as ``_build`` does: its states and moves are copied with numbers shifted."""
    first = nfa.add_states(graph.count)
    nfa.epsilons.add(start, first + graph.start)
    nfa.add_moves(graph.moves, first, graph.sets)
    return _link_to_end(nfa, first + graph.final, end)


def _link_to_end(nfa: Nfa, exit_: int, end: int | None) -> int:
    """Return the end of a node: ``end``, to which an epsilon is added, or else ``exit_``."""
    if end is None:
        return exit_
    nfa.epsilons.add(exit_, end)
    return end


def _edge_lists(nfa: Nfa) -> tuple[Edges, ...]:
    """Return all lists of edges except ``bulk``: moves come first, conditions last."""
    return nfa.moves, nfa.epsilons, nfa.starts, nfa.ends, nfa.conditions


def _list_sizes(nfa: Nfa) -> list[int]:
    """Return the number of edges in each of the ``_edge_lists``, and of moves in ``bulk``."""
    return [*[len(edges.sources) for edges in _edge_lists(nfa)], nfa.bulk_size]


def _copy_last_states(nfa: Nfa, sizes_before: list[int], size: int, copies: int) -> None:
    """Append ``copies`` of the last ``size`` states and of the edges between them.

    ``sizes_before``, an earlier result of ``_list_sizes``, says where these edges begin in each
    list; there must be no other edges after it.
    """
    nfa.add_states(size * copies)
    *edges_before, bulk_before = sizes_before
    for edges, begin in zip(_edge_lists(nfa), edges_before, strict=True):
        for ends in (edges.sources, edges.targets):
            piece = ends[begin:]
            for copy in range(1, copies + 1):
                pause_if_due()
                shift = copy * size
                ends += [state + shift for state in piece]
    nfa.move_sets += nfa.move_sets[edges_before[0] :] * copies
    nfa.condition_looks += nfa.condition_looks[edges_before[-1] :] * copies
    moves = nfa.bulk[:, bulk_before : nfa.bulk_size]
    if moves.shape[1]:
        first = nfa.reserve_bulk(copies * moves.shape[1])  # raises before memory is taken
        copied = nfa.bulk[:, first : nfa.bulk_size]
        copied[:] = np.tile(moves, copies)
        copied[:2] += np.repeat(np.arange(1, copies + 1) * size, moves.shape[1])
