"""The states that a recogniser goes through, character by character; lengths are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from guided.machine.recognizer import Recognizer, State
from guided.runtime.fuel import spend

__all__ = ["BEYOND", "ESCAPE", "MOST_STATES", "Characters", "Graph", "character_graph"]

BEYOND: Final = 128
"""Stands for a character beyond ASCII, whichever it is."""
ESCAPE: Final = 129
"""Stands for an escape in a string of JSON, whichever it is."""
MOST_STATES: Final = 300
"""States that are looked at."""

_MOST_COUNTS: Final = 24
"""Counts of characters that a state is looked at with. What may follow changes with the first few
characters of a string that has to have some."""
_BYTE_WORK: Final = 4
"""Units of work to try a byte."""
_HEX: Final = b"0123456789abcdefABCDEF"
_D: Final = b"dD"
_ESCAPES: Final = (
    (b'"\\/bfnrt',),
    (b"u", b"0123456789abcefABCEF", _HEX, _HEX, _HEX),
    (b"u", _D, b"01234567", _HEX, _HEX),
    (b"u", _D, b"89abAB", _HEX, _HEX, b"\\", b"u", _D, b"cdefCDEF", _HEX, _HEX),
)
"""What may follow a backslash; a pair of surrogates is one escape."""

Characters: TypeAlias = frozenset[int]
"""ASCII characters by their codes, ``BEYOND`` and ``ESCAPE``."""
_Node: TypeAlias = tuple[int, int, tuple[bytes, ...]]
"""A state without its count, so that a string of bounded length is a loop."""


@dataclass(slots=True)
class Graph:
    """States by number, from 0, the start."""

    moves: list[dict[int, Characters]] = field(default_factory=list)
    """By state the states that may be next, each with the characters that lead there."""
    accepting: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    """States from which not every way on is there, as there would be too many states."""


def character_graph(machine: Recognizer, *, has_escapes: bool) -> Graph:
    """The states of a recogniser, the nearest first; ``has_escapes`` says that it reads JSON.

    Raises LimitExceededError where the recogniser grows too large, or the work does.

    The start gets number 0, which drawings rely on. No state is looked at beyond ``MOST_STATES``:
    states that lead to further ones are ``open``.
    """
    graph, numbers, counts = Graph(), dict[_Node, int](), Counter[_Node]()
    seen, waiting = {machine.start}, [machine.start]
    for state in waiting:
        source = _number(graph, numbers, state)
        assert source is not None, "a state that waits has room"
        machine.parts.check_room()
        if machine.is_accepting(state):
            graph.accepting.add(source)
        for character, after in _steps(machine, state, has_escapes=has_escapes):
            target = _number(graph, numbers, after)
            if target is None:
                graph.open.add(source)
                continue
            moves, node = graph.moves[source], _node(after)
            moves[target] = moves.get(target, frozenset()) | {character}
            # A string that has to be long is read until it may end.
            is_stuck = graph.moves[target].keys() == {target}
            if after not in seen and (counts[node] < _MOST_COUNTS or is_stuck):
                counts[node] += 1
                seen.add(after)
                waiting.append(after)
    return graph


def _node(state: State) -> _Node:
    return state.stack, state.row, state.texts


def _number(graph: Graph, numbers: dict[_Node, int], state: State) -> int | None:
    """The number of a state, which it gets if it has none and there is room.

    ``graph`` and ``numbers`` are added to together. ``None`` where the graph is full; states that
    differ in their count alone share a number.
    """
    number = numbers.get(_node(state))
    if number is None and len(numbers) < MOST_STATES:
        number = numbers[_node(state)] = len(numbers)
        graph.moves.append({})
    return number


def _steps(machine: Recognizer, state: State, *, has_escapes: bool) -> Iterator[tuple[int, State]]:
    """The characters that may follow, each with the states that it leads to.

    A character may come several times, with different states. What begins a character beyond ASCII
    is read to its end first, so that all of these count as one.
    """
    beyond = set[State]()
    for byte in range(256):
        for after in _behind(machine, {state}, bytes((byte,))):
            if byte >= 0x80:
                beyond |= _behind_character(machine, {after})
            elif byte == ord("\\") and has_escapes:
                for spelled in _ESCAPES:
                    yield from ((ESCAPE, end) for end in _along(machine, {after}, spelled))
            else:
                yield byte, after
    yield from ((BEYOND, after) for after in beyond)


def _behind_character(machine: Recognizer, inside: set[State]) -> set[State]:
    """The states after the other bytes of a character whose first one is read.

    A state from which no such byte leads on is at the end of the character.
    """
    ends = set[State]()
    while inside:
        reached = {state: _behind(machine, {state}, range(0x80, 0xC0)) for state in inside}
        ends |= {state for state, after in reached.items() if not after}
        inside = set().union(*reached.values())
    return ends


def _along(machine: Recognizer, states: set[State], spelled: tuple[bytes, ...]) -> set[State]:
    """The states after bytes, one out of each set in its turn."""
    for choice in spelled:
        states = _behind(machine, states, choice)
    return states


def _behind(machine: Recognizer, states: Iterable[State], choice: Iterable[int]) -> set[State]:
    """The states after one of these bytes.

    A fresh set; the work is counted by bytes tried, so LimitExceededError may be raised.
    """
    found = set[State]()
    for state in states:
        for byte in choice:
            spend(_BYTE_WORK)
            after = machine.advance(state, bytes((byte,)))
            if after is not None:
                found.add(after)
    return found
