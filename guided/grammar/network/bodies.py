"""The body of a rule as an expression over letters."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from guided.grammar.context_free import (
    Alone,
    Body,
    Call,
    Choice,
    Hole,
    InContext,
    Sequence,
    Terminal,
    Times,
    ToContext,
)
from guided.grammar.network.letters import MAX_RULES, hole_letter, letter_of, letters, mark_letter
from guided.grammar.network.looks import Border, Mark
from guided.grammar.network.separated import Separated, with_lists
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import Alternate, Chars, Concat, Graph, Regular, Repeat, Several
from guided.regular.transitions import moves_of
from guided.regular.utf8 import utf8_sequences

__all__ = ["Bodies"]

_NOTHING: Final = Concat(())
_NEVER_IN_UTF8: Final = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
_NO_RULES: Final[Mapping[str, Body]] = {}
_SMALL: Final = 64
"""Parts of an expression that is not made deterministic by itself, but with what is around it."""
_LARGE: Final = 32
"""States of a terminal that is called."""


class Bodies:
    """Turns bodies into expressions over letters; ``numbers`` tells the letters of rules.

    Bytes in ``missing`` are not spelled: no text of a terminal needs one of them. Large terminals
    are called as rules are, so that nothing is worked out on copies of them.
    """

    def __init__(
        self, numbers: Mapping[str, int], ignored: tuple[Terminal, ...], missing: Collection[int]
    ) -> None:
        self._numbers = numbers
        self._missing = frozenset(missing) - _NEVER_IN_UTF8
        self._spelled: dict[Regular, Regular] = {}
        self.terminals: dict[int, Dfa] = {}
        """Those that are called, by number, which are behind those of rules."""
        self.marks: dict[Mark, int] = {}
        """What stands for look-around at the edges of terminals, numbered."""
        self.blank: Regular = _NOTHING
        """What may stand before each terminal and at the end."""
        if ignored:
            self.blank = Repeat(self._texts(ignored), 0, None)

    def letters(self, body: Body, written_out: Mapping[str, Body] = _NO_RULES) -> Regular:
        """The expression of a body; calls of ``written_out`` rules are replaced by their bodies."""
        match body:
            case Terminal():
                return self._terminals((body,))
            case Hole(number):
                letter = hole_letter(number)
                hole = Chars(CodePoints(((letter, letter),)))
                return hole if self.blank is _NOTHING else Concat((self.blank, hole))
            case Call(rule) if rule in written_out:
                return self.letters(written_out[rule], written_out)
            case Call(rule):
                letter = letter_of(self._numbers[rule])
                return Chars(CodePoints(((letter, letter),)))
            case Sequence(parts):
                return Concat(tuple([self._part(each, written_out) for each in with_lists(parts)]))
            case Choice(options):
                return self._choice(options, written_out)
            case Times(item, low, high):
                return Repeat(self.letters(item, written_out), low, high)
            case InContext() | ToContext():
                return self._mark(body)
            case Alone(item):
                begin, end = self._mark(Border.BEGIN), self._mark(Border.END)
                return Concat((begin, self.letters(item, written_out), end))

    def _part(self, part: Body | Separated, written_out: Mapping[str, Body]) -> Regular:
        if not isinstance(part, Separated):
            return self.letters(part, written_out)
        item = self.letters(part.item, written_out)
        return Several(item, self.letters(part.between, written_out))

    def _choice(self, options: tuple[Body, ...], written_out: Mapping[str, Body]) -> Regular:
        # Terminals side by side are one, so that what is ignored stands before all of them once.
        terminals = tuple(option for option in options if isinstance(option, Terminal))
        others = [
            self.letters(option, written_out)
            for option in options
            if not isinstance(option, Terminal)
        ]
        if terminals:
            others.append(self._terminals(terminals))
        return others[0] if len(others) == 1 else Alternate(tuple(others))

    def _terminals(self, terminals: tuple[Terminal, ...]) -> Regular:
        texts = self._texts(terminals)
        return texts if self.blank is _NOTHING else Concat((self.blank, texts))

    def _texts(self, terminals: tuple[Terminal, ...]) -> Regular:
        """The texts of any of the terminals, with marks for what they see around them."""
        plain = [each.regular for each in terminals if not (each.before or each.after)]
        options: list[Regular] = [
            Concat(
                (
                    *map(self._mark, terminal.before),
                    self._bytes(terminal.regular),
                    *map(self._mark, terminal.after),
                )
            )
            for terminal in terminals
            if terminal.before or terminal.after
        ]
        if plain:
            options.append(self._bytes(plain[0] if len(plain) == 1 else Alternate(tuple(plain))))
        return options[0] if len(options) == 1 else Alternate(tuple(options))

    def _mark(self, mark: Mark) -> Regular:
        letter = mark_letter(self.marks.setdefault(mark, len(self.marks)))
        return Chars(CodePoints(((letter, letter),)))

    def _bytes(self, regular: Regular) -> Regular:
        spelled = self._spelled.get(regular)
        if spelled is None:
            spelled = self._spelled[regular] = self._spelling(regular)
        return spelled

    def _spelling(self, regular: Regular) -> Regular:
        spelled = _as_bytes(regular, self._missing)
        if spelled is not None:
            return spelled
        if isinstance(regular, Alternate) and len(regular.options) <= _SMALL:
            return Alternate(tuple(map(self._bytes, regular.options)))
        dfa = byte_dfa_from_dfa(dfa_from_regular(regular), utf8_sequences, self._missing)
        number = len(self._numbers) + len(self.terminals) + 1
        if len(dfa) < _LARGE or dfa.label[0] != DEAD or number >= MAX_RULES:
            return _graph(dfa)
        self.terminals[number] = Dfa(_classes(dfa), dfa.next, dfa.label)
        return Chars(letters([number]))


def _as_bytes(regular: Regular, missing: frozenset[int]) -> Regular | None:
    """A small expression with its characters spelled in bytes; ``None`` for others."""
    match regular:
        case Chars(chars):
            return _spelled_out(chars, missing)
        case Concat(parts) | Alternate(parts):
            spelled = [_as_bytes(part, missing) for part in parts] if len(parts) <= _SMALL else []
            made = tuple(part for part in spelled if part is not None)
            return type(regular)(made) if len(made) == len(parts) else None
        case Repeat(item, low, high) if max(low, high or 0) <= 1:
            inner = _as_bytes(item, missing)
            return None if inner is None else Repeat(inner, low, high)
    return None


@functools.lru_cache(maxsize=1024)
def _spelled_out(chars: CodePoints, missing: frozenset[int]) -> Regular | None:
    if not missing and (not chars or chars.ranges[-1][1] < 128):
        return Chars(chars)
    if len(chars.ranges) > _SMALL:
        return None
    gone = ~CodePoints.of((byte, byte) for byte in missing)
    options: list[Regular] = []
    for low, high in chars.ranges:
        for sequence in utf8_sequences(low, high):
            kept = tuple(Chars(CodePoints((bounds,)) & gone) for bounds in sequence)
            options.append(Concat(kept))
    return Alternate(tuple(options)) if len(options) <= _SMALL else None


def _graph(dfa: ByteDfa) -> Regular:
    """The texts of an automaton over bytes, with one end, which nothing leads on from."""
    if not len(dfa):
        return Alternate(())
    end = len(dfa)
    moves = moves_of(dfa.next)
    ending = moves[:, dfa.label[moves[1]] != DEAD]
    ending[1] = end
    graph = Graph(end + 1, _classes(dfa), np.concatenate([moves, ending], axis=1), 0, end)
    return graph if dfa.label[0] == DEAD else Alternate((graph, _NOTHING))


def _classes(dfa: ByteDfa) -> tuple[CodePoints, ...]:
    """The bytes of each class."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(dfa.next.shape[1])]
    classes: list[int] = [*dfa.byte_class.tolist(), -1]
    begin = 0
    for byte in range(256):
        if classes[byte + 1] != classes[byte]:
            found[classes[byte]].append((begin, byte))
            begin = byte + 1
    return tuple([CodePoints(tuple(ranges)) for ranges in found])
