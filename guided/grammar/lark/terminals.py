"""The terminals of a Lark grammar as expressions over text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from guided.errors import UnsupportedFeatureError
from guided.grammar.context_free import Terminal
from guided.grammar.lark.literals import regular_of_literal, regular_of_range
from guided.grammar.lark.references import terminal_of
from guided.grammar.lark.source import Definition, Source
from guided.grammar.lark.syntax import (
    Alternatives,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    Tree,
)
from guided.regular.expression import Alternate, Concat, Regular, Repeat
from guided.regular.patterns.terminal_edges import parted
from guided.runtime.fuel import spend

__all__ = ["Pieces", "Terminals"]

Pieces: TypeAlias = tuple[Terminal, ...]
"""What a terminal is a choice of."""

_NOTHING: Final = Concat(())


class Terminals:
    """Terminals by definition and by what is written in a rule, each made once."""

    def __init__(self) -> None:
        self._pieces: dict[Definition, Pieces] = {}
        self._written: dict[tuple[Source, str], Pieces] = {}
        self._texts: dict[Definition, Regular] = {}

    def of(self, definition: Definition) -> Pieces:
        """Those of a terminal with a name."""
        pieces = self._pieces.get(definition)
        if pieces is None:
            pieces = _parted(self._text_of(definition), definition.source, definition.position)
            self._pieces[definition] = pieces
        return pieces

    def of_body(self, tree: Tree, source: Source, position: int) -> Pieces:
        """Those of a body that has no name."""
        return _parted(self._of(tree, source), source, position)

    def of_literal(self, tree: Literal | Range, source: Source) -> Pieces:
        """Those of a literal or a range inside of a rule."""
        key = source, tree.text
        pieces = self._written.get(key)
        if pieces is None:
            pieces = self._written[key] = _parted(self._of(tree, source), source, tree.position)
        return pieces

    def _text_of(self, definition: Definition) -> Regular:
        text = self._texts.get(definition)
        if text is None:
            options = tuple([self._of(*body) for body in definition.bodies])
            text = options[0] if len(options) == 1 else Alternate(options)
            self._texts[definition] = text
        return text

    def _of(self, tree: Tree, source: Source) -> Regular:
        spend(20)
        match tree:
            case Name():
                return self._text_of(terminal_of(tree, source))
            case Literal():
                return regular_of_literal(tree, source)
            case Range():
                return regular_of_range(tree, source)
            case Series(parts):
                return _series([self._of(part, source) for part in parts])
            case Alternatives(options):
                return Alternate(tuple([self._of(option, source) for option in options]))
            case Repeated(item, low, high):
                return Repeat(self._of(item, source), low, high)
        raise AssertionError("a template was refused before")


def _series(parts: Iterable[Regular]) -> Regular:
    kept = tuple([part for part in parts if part != _NOTHING])
    return kept[0] if len(kept) == 1 else Concat(kept)


def _parted(regular: Regular, source: Source, position: int) -> Pieces:
    try:
        pieces = parted(regular)
    except UnsupportedFeatureError as error:
        raise source.error(position, error.message, type(error), error.hint) from error
    return tuple([Terminal(text, before, after) for before, text, after in pieces])
