r"""Expressions of texts as they are written inside the quotes of JSON.

::

    [a"]\n+  ->  (?:a|\\")(?:\\n)+

Each character has one spelling, the one of ``json_string_sequences``. No spelling begins another
one, so what is read is never ambiguous, and whole texts correspond one to one.
"""

from __future__ import annotations

import functools
from typing import Final

from guided.regular.codepoints import ANY, CodePoints
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Look,
    Regular,
    Repeat,
    Start,
    one_character,
)
from guided.regular.utf8 import json_string_sequences
from guided.runtime.work_budget import spend, with_pauses

__all__ = ["escape_look", "escape_texts"]

_ESCAPED: Final = CodePoints(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)))
"""The characters that are not written as they are."""
_MOVE_WORK: Final = 20
"""Units of work for a move of a graph."""


def escape_texts(regular: Regular) -> Regular:
    """Return the expression of the same texts as JSON writes them in strings, without the quotes.

    Only for what parsers return, as ``contains_end`` is: recursive, as deep as expressions nest.
    """
    spend(1)
    match regular:
        case Chars(chars):
            return _escape_characters(chars)
        case Concat(parts):
            return Concat(tuple([escape_texts(part) for part in parts]))
        case Alternate(options):
            return Alternate(tuple([escape_texts(option) for option in options]))
        case Repeat(item, low, high, lazy):
            return Repeat(escape_texts(item), low, high, lazy)
        case Look():
            return escape_look(regular)
        case Start() | End():
            return regular
        case Graph():
            return _escape_graph(regular)
    raise AssertionError(f"{type(regular).__name__} is made by no parser")


def escape_look(look: Look) -> Look:
    """Return the look-around with what it looks for escaped, as ``escape_texts`` does."""
    item = escape_texts(look.item)
    if not look.ahead:
        # The spelling of a character may end like that of another one: "\n" in "n". So what is
        # before has to be read from the start.
        item = Concat((Start(), Repeat(_escape_characters(ANY), 0, None), item))
    return Look(item, look.ahead, look.negative)


@functools.lru_cache(maxsize=1024)
def _escape_characters(chars: CodePoints) -> Regular:
    """Return the expression of the spellings of a set's characters."""
    options: list[Regular] = [
        Concat((*map(one_character, beginning), Chars(lasts))) if beginning else Chars(lasts)
        for beginning, lasts in _spellings(chars)
    ]
    return options[0] if len(options) == 1 else Alternate(tuple(options))


def _escape_graph(graph: Graph) -> Graph:
    """Return the graph with further states inside of spellings, for each move that has some."""
    moves: list[tuple[int, CodePoints, int]] = []
    count = graph.count
    spend(_MOVE_WORK * graph.moves.shape[1])
    for source, target, number in with_pauses(graph.moves.T.tolist()):
        for beginning, lasts in _spellings(graph.sets[number]):
            at = source
            for byte in beginning:
                moves.append((at, CodePoints(((byte, byte),)), count))
                at, count = count, count + 1
            moves.append((at, lasts, target))
    return Graph.from_moves(count, moves, graph.start, graph.final)


@functools.lru_cache(maxsize=1024)
def _spellings(chars: CodePoints) -> tuple[tuple[bytes, CodePoints], ...]:
    """Return the spellings of a set's characters: beginnings, and what may stand after each.

    Spellings with the same beginning share it, so that few states are made.
    """
    by_beginning: dict[bytes, list[int]] = {}
    for low, high in (chars & _ESCAPED).ranges:
        for sequence in json_string_sequences(low, high):
            *beginning, last = [byte for byte, _ in sequence]
            by_beginning.setdefault(bytes(beginning), []).append(last)
    found = [
        (beginning, CodePoints.from_ranges((byte, byte) for byte in lasts))
        for beginning, lasts in by_beginning.items()
    ]
    plain = chars & ~_ESCAPED
    return (*found, (b"", plain)) if plain else tuple(found)
