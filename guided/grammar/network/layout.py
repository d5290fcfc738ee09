"""The automata of rules as one network: all their states numbered consecutively, in a few tables.

::

    states   0 ........ 7 | 8 .... 12 | 13 ...        one rule after another, in order of their
             rule 0       | rule 1    | holes         numbers; last a state for each hole
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.grammar.network.network import CallEdge, HoleText, Network
from guided.grammar.network.network_kernels import shortest_ways, write_moves
from guided.grammar.network.rule_automata import RuleAutomata
from guided.grammar.network.symbols import Kind, class_by_byte, edges_over
from guided.regular.byte_dfa import byte_classes
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["MAX_STATES", "network_from_automata"]

MAX_STATES: Final = 60_000
"""States of a network, some hundred bytes each."""


def network_from_automata(
    automata: RuleAutomata, accepts_nothing: bool, holes: Sequence[HoleText]
) -> Network:
    """Return the network of rules that all read a byte; raises LimitExceededError past MAX_STATES.

    The automata are trimmed, none of them accepts the empty text, and each rule that one of them
    calls is among them. Rules are renumbered in the order of their numbers, holes after them: so
    rule 0, the whole, stays 0.
    """
    order = sorted(automata)
    rule_of = {rule: index for index, rule in enumerate(order)}
    sizes = [*(len(automata[rule]) for rule in order), *[1] * len(holes)]
    starts = np.cumsum([0, *sizes])
    count = int(starts[-1])
    if count > MAX_STATES:
        raise LimitExceededError(
            f"the grammar needs {count} states, more than {MAX_STATES}",
            limit=MAX_STATES,
            field="constraint",
            hint="lower the bounds of repeats, or list fewer alternatives",
        )
    spend(4 * count)
    columns, byte_class, own_classes = _classes(automata, order, holes)
    moves = np.full((count, own_classes.shape[1]), DEAD, dtype=np.int32)
    edges = [np.empty((0, 3), dtype=np.int32)]
    calls: list[tuple[int, int, int]] = []
    accepting = np.zeros(count, dtype=np.bool_)
    # Holes, the last of ``starts`` and ``sizes``, have no automata: ``order`` ends before them.
    for rule, first, size, own in zip(order, starts.tolist(), sizes, columns, strict=False):
        dfa = automata[rule]
        # States keep their order; calls and holes are no bytes, so they are not in the tables of
        # moves.
        accepting[first : first + size] = dfa.accepting
        edges.append(write_moves(dfa.next, own, first, byte_class, moves))
        for source, callee, target in edges_over(dfa, Kind.CALL):
            calls.append((first + source, rule_of[callee], first + target))
        for source, hole, target in edges_over(dfa, Kind.HOLE):
            calls.append((first + source, len(order) + hole, first + target))
    # A rule that ends here needs no more bytes; for a hole the shortest text is known. States of
    # holes come last, see ``Network.holes``.
    known = np.where(accepting, 0, -1)
    known[count - len(holes) :] = [hole.shortest for hole in holes]
    call_table = np.array(calls, dtype=np.int32).reshape(-1, 3)
    left, ways = shortest_ways(starts[:-1], np.concatenate(edges), call_table, known)
    return Network(
        tuple(starts[:-1].tolist()),
        byte_class,
        moves,
        own_classes,
        _calls_by_state(count, calls),
        accepting,
        tuple(left.tolist()),
        ways,
        accepts_nothing,
        tuple(holes),
    )


def _classes(
    automata: RuleAutomata, order: Sequence[int], holes: Sequence[HoleText]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """Return the classes of bytes that all rules read alike.

    Returns the class that each byte has in each rule's own automaton, int32 ``[rules + 1, 256]``
    with the bytes that holes begin with last; ``Network.byte_class``; and ``Network.own_classes``,
    where the rows of holes stay DEAD, as the network has no moves inside a hole. The bytes that
    holes begin with only serve to distinguish classes.
    """
    columns = np.full((len(order) + 1, 256), DEAD, dtype=np.int32)
    for place, rule in enumerate(order):
        columns[place] = class_by_byte(automata[rule])
    # Nothing is known about what is in a hole, so no two of its first bytes are alike.
    begun = sorted({byte for hole in holes for byte in hole.first})
    columns[-1, begun] = begun
    byte_class, firsts = byte_classes(columns)
    own_classes = np.full((len(order) + len(holes), len(firsts)), DEAD, dtype=np.int32)
    own_classes[: len(order)] = columns[:-1, firsts]
    return columns, byte_class, own_classes


def _calls_by_state(
    count: int, calls: Sequence[tuple[int, int, int]]
) -> tuple[tuple[CallEdge, ...], ...]:
    """Return the calls of each of ``count`` states, from calls given as source, rule and target."""
    calling: dict[int, list[CallEdge]] = {}
    for source, rule, target in calls:
        calling.setdefault(source, []).append(CallEdge(rule, target))
    by_state: list[tuple[CallEdge, ...]] = [()] * count
    for source, edges in calling.items():
        by_state[source] = tuple(edges)
    return tuple(by_state)
