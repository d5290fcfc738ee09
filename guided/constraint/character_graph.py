"""The graph of a recogniser by characters instead of bytes, without counts and remembered texts.

``automaton.py`` merges its states and draws it, for people to read; nothing is decided by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from guided.machine.recognizer import Recognizer, State
from guided.runtime.work_budget import spend

__all__ = ["ESCAPE", "MAX_STATES", "NON_ASCII", "Characters", "Graph", "character_graph"]

NON_ASCII: Final = 128
"""Stands for any character beyond ASCII."""
ESCAPE: Final = 129
"""Stands for any escape in a JSON string."""
MAX_STATES: Final = 300
"""The most states of a graph."""

_MAX_COUNTS: Final = 24
"""The most counts of characters with which a node is visited. If a string must have some
characters, what may follow changes only with the first few; see ``is_stuck`` for an exception."""
_BYTE_WORK: Final = 4
"""Units of work for following a byte."""
_HEX: Final = b"0123456789abcdefABCDEF"
_D: Final = b"dD"
_ESCAPES: Final = (
    (b'"\\/bfnrt',),
    (b"u", b"0123456789abcefABCEF", _HEX, _HEX, _HEX),
    (b"u", _D, b"01234567", _HEX, _HEX),
    (b"u", _D, b"89abAB", _HEX, _HEX, b"\\", b"u", _D, b"cdefCDEF", _HEX, _HEX),
)
"""What may follow a backslash; a surrogate pair counts as one escape."""

Characters: TypeAlias = frozenset[int]
"""ASCII characters by code, and perhaps ``NON_ASCII`` and ``ESCAPE``."""
_Node: TypeAlias = tuple[int, int]
"""The stack and row of a state. A string of bounded length, whose characters are counted, is thus a
cycle, and so is a name that must not occur twice, whose text is remembered."""


@dataclass(slots=True)
class Graph:
    """A directed graph; states are indices into ``moves``, and 0 is the start."""

    moves: list[dict[int, Characters]] = field(default_factory=list)
    """For each state, the possible next states, each with the characters that lead to it."""
    accepting: set[int] = field(default_factory=set)
    truncated: set[int] = field(default_factory=set)
    """States that have further moves, left out because there would be too many states."""


def character_graph(machine: Recognizer, *, has_escapes: bool) -> Graph:
    """Return the graph of a recogniser, breadth first; ``has_escapes`` says that it reads JSON.

    Then a backslash that begins no escape of JSON has no move, so ``machine`` must be that of a
    schema alone.

    There are at most ``MAX_STATES`` states; those with further successors are in
    ``Graph.truncated``. Raises LimitExceededError if the recogniser grows too large or this takes
    too much work.
    """
    graph, id_by_node, counts = Graph(), dict[_Node, int](), Counter[_Node]()
    seen, worklist = {_without_texts(machine.start)}, [machine.start]
    for state in worklist:  # which grows meanwhile
        source = _get_or_add_id(graph, id_by_node, state)
        assert source is not None, "the nodes of states in the worklist are in the graph"
        machine.parts.check_room()
        if machine.is_accepting(state):
            graph.accepting.add(source)
        for character, after in _next_characters(machine, state, has_escapes=has_escapes):
            target = _get_or_add_id(graph, id_by_node, after)
            if target is None:
                graph.truncated.add(source)
                continue
            moves, node = graph.moves[source], _node(after)
            moves[target] = moves.get(target, frozenset()) | {character}
            # A node whose only move found so far leads to itself may be inside a long string that
            # has to be longer still (minLength): it is followed past ``_MAX_COUNTS``, or the graph
            # would not show how the string ends.
            is_stuck = graph.moves[target].keys() == {target}
            key = _without_texts(after)
            if key not in seen and (counts[node] < _MAX_COUNTS or is_stuck):
                counts[node] += 1
                seen.add(key)
                worklist.append(after)
    return graph


def _node(state: State) -> _Node:
    return state.stack, state.row


def _get_or_add_id(graph: Graph, id_by_node: dict[_Node, int], state: State) -> int | None:
    """Return the state of the graph for one of the recogniser; ``None`` if there is no room for it.

    Extends ``graph`` and ``id_by_node``. States of equal nodes share one.
    """
    node = _node(state)
    found = id_by_node.get(node)
    if found is None and len(id_by_node) < MAX_STATES:
        found = id_by_node[node] = len(id_by_node)
        graph.moves.append({})
    return found


def _next_characters(
    machine: Recognizer, state: State, *, has_escapes: bool
) -> Iterator[tuple[int, State]]:
    """Yield the characters that may follow, each with a state that it leads to.

    A character may be yielded several times, with different states. Characters beyond ASCII are all
    yielded as NON_ASCII, after their last byte.
    """
    for byte in range(0x80):
        for after in _states_after(machine, {state}, bytes((byte,))):
            if byte == ord("\\") and has_escapes:
                for escape in _ESCAPES:
                    yield from (
                        (ESCAPE, end) for end in _states_after_all(machine, {after}, escape)
                    )
            else:
                yield byte, after
    inside = _states_after(machine, {state}, range(0x80, 0x100))
    yield from ((NON_ASCII, after) for after in _states_after_character(machine, inside))


def _states_after_character(machine: Recognizer, inside: set[State]) -> set[State]:
    """Return the states at the end of characters of which the first byte was read.

    A state from which no continuation byte leads on is at the end of the character.
    """
    ends = set[State]()
    while inside:
        reached = {state: _states_after(machine, {state}, range(0x80, 0xC0)) for state in inside}
        ends |= {state for state, after in reached.items() if not after}
        inside = set().union(*reached.values())
    return ends


def _states_after_all(
    machine: Recognizer, states: set[State], choices: tuple[bytes, ...]
) -> set[State]:
    """Return the states after several bytes, one of each choice in turn."""
    for choice in choices:
        states = _states_after(machine, states, choice)
    return states


def _states_after(
    machine: Recognizer, states: Iterable[State], choice: Iterable[int]
) -> set[State]:
    """Return the states after any one of some bytes, one of those that differ in texts alone.

    Each byte costs work, so LimitExceededError may be raised.
    """
    found: dict[State, State] = {}
    for state in states:
        for byte in choice:
            spend(_BYTE_WORK)
            after = machine.advance(state, bytes((byte,)))
            if after is not None:
                found.setdefault(_without_texts(after), after)
    return set(found.values())


def _without_texts(state: State) -> State:
    return state._replace(texts=())
