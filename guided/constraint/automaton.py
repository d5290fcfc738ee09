"""Draw the automaton of a constraint's texts for people to read.

::

    recogniser ──▶ states by characters ──▶ equal ones merged ──▶ a text as one arrow ──▶ Automaton
                   (character_graph)
"""

from __future__ import annotations

from typing import Final

from guided.constraint.character_graph import BEYOND, ESCAPE, Characters, Graph, character_graph
from guided.constraint.machine import machine_of
from guided.masks.limits import ConstraintLimits
from guided.runtime.fuel import limited_work, spend
from guided.spec import JsonSchema, Structure
from guided.spec.findings import Arrow, Automaton

__all__ = ["automaton_of", "label_of"]

_PRINTABLE: Final = frozenset(range(0x20, 0x7F))
_MANY: Final = 48
"""If a class has more printable characters than this, the label lists those it lacks instead."""


def automaton_of(constraint: Structure) -> Automaton:
    """Draw a constraint, from a recogniser built only for this; lengths of strings are left out.

    Of a large constraint only the first states are drawn, and a state with more behind it is marked
    open. Raises what ``machine_of`` raises, and LimitExceededError if this takes too much work.
    """
    limits = ConstraintLimits()
    with limited_work(limits.compile_work, "drawing the automaton"):
        machine = machine_of(constraint, limits=limits.recognizer)
        has_escapes = isinstance(constraint, JsonSchema)
        return _drawn(_merged(character_graph(machine, has_escapes=has_escapes)))


def _merged(graph: Graph) -> Graph:
    """Return the same graph with all equal states merged into one.

    States count as equal until some move distinguishes them (Moore's algorithm); each open state
    remains distinct.

    The start, state 0, remains state 0, because ``names`` numbers the blocks in the order of the
    first state of each; ``_passing`` relies on it.
    """
    states = range(len(graph.moves))
    # The block of each state. The numbers mean nothing: states of one block have the same one.
    block = [-1 - state if state in graph.open else state in graph.accepting for state in states]
    while True:
        spend(len(block))
        told = [(block[state], _by_block(graph.moves[state], block)) for state in states]
        names = {each: number for number, each in enumerate(dict.fromkeys(told))}
        is_final = len(names) == len(set(block))
        block = [names[each] for each in told]
        if is_final:
            break
    merged = Graph([{} for _ in names])
    for state in states:
        merged.moves[block[state]] = dict(_by_block(graph.moves[state], block))
    merged.accepting = {block[state] for state in graph.accepting}
    merged.open = {block[state] for state in graph.open}
    return merged


def _by_block(moves: dict[int, Characters], block: list[int]) -> frozenset[tuple[int, Characters]]:
    found = dict[int, Characters]()
    for target, characters in moves.items():
        found[block[target]] = found.get(block[target], frozenset()) | characters
    return frozenset(found.items())


def _drawn(graph: Graph) -> Automaton:
    """Return the drawing: the states that are not just places in texts, renumbered, and arrows.

    State 0 is never passing, so it is the start of the drawing, too.
    """
    passing = _passing(graph)
    kept = [state for state in range(len(graph.moves)) if state not in passing]
    numbers = {state: number for number, state in enumerate(kept)}
    arrows = []
    for state in kept:
        for target, characters in graph.moves[state].items():
            label, end = label_of(characters), target
            while end in passing:
                ((end, characters),) = graph.moves[end].items()
                label += label_of(characters)
            is_text = target in passing or _is_text(characters)
            arrows.append(Arrow(numbers[state], numbers[end], label, is_text))
    return Automaton(
        states=len(kept),
        accepting=tuple(sorted(numbers[state] for state in graph.accepting)),
        open=tuple(sorted(numbers[state] for state in graph.open)),
        arrows=tuple(sorted(arrows, key=lambda arrow: (arrow.source, arrow.target, arrow.label))),
    )


def _passing(graph: Graph) -> set[int]:
    """Return the states inside texts: one character leads to each, and one leads on from it.

    As there is no other way in, a ring of such states cannot be reached from the start. ``_drawn``
    relies on it: it follows such states until they end.
    """
    entered: list[list[Characters]] = [[] for _ in graph.moves]
    for moves in graph.moves:
        for target, characters in moves.items():
            entered[target].append(characters)
    return {
        state
        for state, moves in enumerate(graph.moves)
        if state not in graph.accepting | graph.open | {0}
        and len(moves) == len(entered[state]) == 1
        and all(map(_is_text, (*moves.values(), *entered[state])))
    }


def _is_text(characters: Characters) -> bool:
    return len(characters) == 1 and max(characters) < BEYOND


def label_of(characters: Characters) -> str:
    """Return a label: one character as it is, several as a class such as ``[0-9a-f]``.

    If only a few characters are missing, the label is ``any but ["]``. It then says nothing of
    control characters and escapes, and says "of ASCII" if BEYOND is not among the characters.
    """
    if _is_text(characters):
        return _shown(*characters)
    lacking = _PRINTABLE - characters
    if len(lacking) < len(_PRINTABLE) - _MANY:
        others = "" if BEYOND in characters else "of ASCII "
        return f"any {others}but {_ranges(lacking)}" if lacking else f"any {others}".rstrip()
    ascii_ = characters - {BEYOND, ESCAPE}
    parts = [
        _ranges(ascii_) if ascii_ else "",
        "beyond ASCII" if BEYOND in characters else "",
        "escape" if ESCAPE in characters else "",
    ]
    return " or ".join(filter(None, parts))


def _ranges(characters: Characters) -> str:
    """Return the class of some ASCII characters, for people to read and never to be parsed.

    So "-", "]" and "^" are not escaped in it, and the form may change.
    """
    parts, codes = [], sorted(characters)
    while codes:
        length = next((n for n, code in enumerate(codes) if code != codes[0] + n), len(codes))
        low, high = _shown(codes[0]), _shown(codes[length - 1])
        parts.append(low if length == 1 else f"{low}{high}" if length == 2 else f"{low}-{high}")
        codes = codes[length:]
    return f"[{''.join(parts)}]"


def _shown(code: int) -> str:
    character = chr(code)
    return character if character.isprintable() else character.encode("unicode_escape").decode()
