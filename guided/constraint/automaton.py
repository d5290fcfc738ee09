"""Draw the automaton of the texts of a constraint, for people to read.

::

    recogniser ──▶ states by characters ──▶ equal ones merged ──▶ a text as one arrow ──▶ Automaton
                   (character_graph)
"""

from __future__ import annotations

from typing import Final

from guided.constraint.character_graph import ESCAPE, NON_ASCII, Characters, Graph, character_graph
from guided.constraint.machine import machine_of
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import limited_work, spend
from guided.spec import JsonSchema, Structure
from guided.spec.findings import Arrow, Automaton

__all__ = ["automaton_of", "label_of"]

_PRINTABLE: Final = frozenset(range(0x20, 0x7F))
_MAX_LISTED: Final = 48
"""Characters that a label lists; a larger class is described by those that it lacks."""


def automaton_of(constraint: Structure) -> Automaton:
    """Return the drawing of a constraint; the bounds on lengths of strings are left out.

    The recogniser is built only for this. Of a large constraint only the first states are drawn,
    and a state with more behind it is marked open. Raises what ``machine_of`` raises, and
    LimitExceededError if this takes too much work.
    """
    limits = ConstraintLimits()
    with limited_work(limits.compile_work, "drawing the automaton"):
        machine = machine_of(constraint, limits=limits.recognizer)
        # Only then is every backslash that of an escape; elsewhere it is drawn as a character.
        has_escapes = isinstance(constraint, JsonSchema)
        return _draw(_merge_equal_states(character_graph(machine, has_escapes=has_escapes)))


def _merge_equal_states(graph: Graph) -> Graph:
    """Return the graph with all equal states merged into one.

    States are equal if equal moves lead to equal states. By partition refinement (Moore's
    algorithm); each state in ``truncated`` remains distinct. The start, state 0, remains state 0.
    """
    states = range(len(graph.moves))
    # The block of each state: by whether it accepts; a truncated one has a block of its own.
    block = [
        -1 - state if state in graph.truncated else state in graph.accepting for state in states
    ]
    while True:
        spend(len(block))
        signatures = [
            (block[state], _moves_by_block(graph.moves[state], block)) for state in states
        ]
        # Numbered in the order of their first states, so that state 0 is in block 0.
        block_by_signature = {each: index for index, each in enumerate(dict.fromkeys(signatures))}
        is_final = len(block_by_signature) == len(set(block))
        block = [block_by_signature[each] for each in signatures]
        if is_final:
            break
    merged = Graph([{} for _ in block_by_signature])
    for state in states:
        merged.moves[block[state]] = dict(_moves_by_block(graph.moves[state], block))
    merged.accepting = {block[state] for state in graph.accepting}
    merged.truncated = {block[state] for state in graph.truncated}
    return merged


def _moves_by_block(
    moves: dict[int, Characters], block: list[int]
) -> frozenset[tuple[int, Characters]]:
    """Return the moves to blocks instead of states, those to one block joined."""
    by_block = dict[int, Characters]()
    for target, characters in moves.items():
        by_block[block[target]] = by_block.get(block[target], frozenset()) | characters
    return frozenset(by_block.items())


def _draw(graph: Graph) -> Automaton:
    """Return the drawing of a graph, in which arrows stand for whole texts.

    States inside texts are left out, and the others renumbered. State 0 is never one of those, so
    it is also the start of the drawing.
    """
    inside_texts = _states_inside_texts(graph)
    kept = [state for state in range(len(graph.moves)) if state not in inside_texts]
    new_id = {state: index for index, state in enumerate(kept)}
    arrows = []
    for state in kept:
        for target, characters in graph.moves[state].items():
            label, end = label_of(characters), target
            while end in inside_texts:
                ((end, characters),) = graph.moves[end].items()
                label += label_of(characters)
            is_text = target in inside_texts or _is_single_character(characters)
            arrows.append(Arrow(new_id[state], new_id[end], label, is_text))
    return Automaton(
        states=len(kept),
        accepting=tuple(sorted(new_id[state] for state in graph.accepting)),
        open=tuple(sorted(new_id[state] for state in graph.truncated)),
        arrows=tuple(sorted(arrows, key=lambda arrow: (arrow.source, arrow.target, arrow.label))),
    )


def _states_inside_texts(graph: Graph) -> set[int]:
    """Return the states inside texts: one character leads to each, and one leads on from it.

    No cycle of such states can be reached from the start, so following them always ends.
    """
    incoming: list[list[Characters]] = [[] for _ in graph.moves]
    for moves in graph.moves:
        for target, characters in moves.items():
            incoming[target].append(characters)
    return {
        state
        for state, moves in enumerate(graph.moves)
        if state not in graph.accepting | graph.truncated | {0}
        and len(moves) == len(incoming[state]) == 1
        and all(map(_is_single_character, (*moves.values(), *incoming[state])))
    }


def _is_single_character(characters: Characters) -> bool:
    return len(characters) == 1 and max(characters) < NON_ASCII


def label_of(characters: Characters) -> str:
    """Return the label of some characters: one as it is, several as a class such as ``[0-9a-f]``.

    If only a few characters are missing, the label is ``any but ["]``. It then does not mention
    control characters and escapes, and says "of ASCII" if NON_ASCII is not among the characters.
    """
    if _is_single_character(characters):
        return _display(*characters)
    missing = _PRINTABLE - characters
    if len(missing) < len(_PRINTABLE) - _MAX_LISTED:
        others = "" if NON_ASCII in characters else "of ASCII "
        return f"any {others}but {_bracket_class(missing)}" if missing else f"any {others}".rstrip()
    ascii_ = characters - {NON_ASCII, ESCAPE}
    parts = [
        _bracket_class(ascii_) if ascii_ else "",
        "beyond ASCII" if NON_ASCII in characters else "",
        "escape" if ESCAPE in characters else "",
    ]
    return " or ".join(filter(None, parts))


def _bracket_class(characters: Characters) -> str:
    """Return a class such as ``[0-9a-f]`` of some ASCII characters, only for people to read.

    So "-", "]" and "^" are not escaped in it.
    """
    parts, codes = [], sorted(characters)
    while codes:
        length = next((n for n, code in enumerate(codes) if code != codes[0] + n), len(codes))
        low, high = _display(codes[0]), _display(codes[length - 1])
        parts.append(low if length == 1 else f"{low}{high}" if length == 2 else f"{low}-{high}")
        codes = codes[length:]
    return f"[{''.join(parts)}]"


def _display(code: int) -> str:
    character = chr(code)
    return character if character.isprintable() else character.encode("unicode_escape").decode()
