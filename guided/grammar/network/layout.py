"""Puts the automata of rules into one network: tables over all states, numbered consecutively.

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
from guided.grammar.network.network_kernels import shortest_moves, write_moves
from guided.grammar.network.rule_automata import RuleAutomata
from guided.grammar.network.symbols import Kind, class_by_byte, edges_over
from guided.regular.dfa import DEAD
from guided.regular.equal_columns import group_columns
from guided.runtime.work_budget import spend

__all__ = ["MAX_STATES", "network_from_automata"]

MAX_STATES: Final = 60_000
"""The most states of a network; each takes some hundred bytes."""


def network_from_automata(
    automata: RuleAutomata, accepts_empty: bool, holes: Sequence[HoleText]
) -> Network:
    """Return the network of some rules; raises LimitExceededError past MAX_STATES.

    The automata must be trimmed, not accept the empty text, and call only each other. Rules are
    renumbered without gaps in the same order, and holes come after them; rule 0 is the whole text.
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
    columns, byte_class, rule_classes = _shared_classes(automata, order, holes)
    moves = np.full((count, rule_classes.shape[1]), DEAD, dtype=np.int32)
    edges = [np.empty((0, 3), dtype=np.int32)]
    calls: list[tuple[int, int, int]] = []
    accepting = np.zeros(count, dtype=np.bool_)
    # Holes, the last of ``starts`` and ``sizes``, have no automata: ``order`` ends before them.
    for rule, first, size, own in zip(order, starts.tolist(), sizes, columns, strict=False):
        dfa = automata[rule]
        # States keep their order. Calls and holes are not bytes, so ``moves`` lacks them.
        accepting[first : first + size] = dfa.accepting
        edges.append(write_moves(dfa.next, own, first, byte_class, moves))
        for source, callee, target in edges_over(dfa, Kind.CALL):
            calls.append((first + source, rule_of[callee], first + target))
        for source, hole, target in edges_over(dfa, Kind.HOLE):
            calls.append((first + source, len(order) + hole, first + target))
    # Distances known beforehand: 0 where a rule may end, and the shortest text for the state of a
    # hole. These states come last.
    known_distance = np.where(accepting, 0, -1)
    known_distance[count - len(holes) :] = [hole.shortest for hole in holes]
    call_table = np.array(calls, dtype=np.int32).reshape(-1, 3)
    distance, shortest = shortest_moves(
        starts[:-1], np.concatenate(edges), call_table, known_distance
    )
    assert (distance >= 0).all(), "a state leads to no end"
    return Network(
        tuple(starts[:-1].tolist()),
        byte_class,
        moves,
        rule_classes,
        _calls_by_state(count, calls),
        accepting,
        tuple(distance.tolist()),
        shortest,
        accepts_empty,
        tuple(holes),
    )


def _shared_classes(
    automata: RuleAutomata, order: Sequence[int], holes: Sequence[HoleText]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """Return classes of bytes that no rule distinguishes.

    Returns by rule the class of each byte in its own automaton, int32 ``[rules + 1, 256]``, where
    the last row stands for the first bytes of holes; ``Network.byte_class``; and
    ``Network.rule_classes``, DEAD for holes, as the network has no moves inside them.
    """
    columns = np.full((len(order) + 1, 256), DEAD, dtype=np.int32)
    for place, rule in enumerate(order):
        columns[place] = class_by_byte(automata[rule])
    # Each first byte of a hole is a class, as nothing more is known about the texts of holes.
    first_bytes = sorted({byte for hole in holes for byte in hole.first})
    columns[-1, first_bytes] = first_bytes
    byte_class, firsts = group_columns(columns)
    rule_classes = np.full((len(order) + len(holes), len(firsts)), DEAD, dtype=np.int32)
    rule_classes[: len(order)] = columns[:-1, firsts]
    return columns, byte_class, rule_classes


def _calls_by_state(
    count: int, calls: Sequence[tuple[int, int, int]]
) -> tuple[tuple[CallEdge, ...], ...]:
    """Return the calls of each of ``count`` states, from calls given as source, rule and target."""
    grouped: dict[int, list[CallEdge]] = {}
    for source, rule, target in calls:
        grouped.setdefault(source, []).append(CallEdge(rule, target))
    by_state: list[tuple[CallEdge, ...]] = [()] * count
    for source, edges in grouped.items():
        by_state[source] = tuple(edges)
    return tuple(by_state)
