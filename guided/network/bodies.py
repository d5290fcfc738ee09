"""The body of a rule as an expression over letters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from guided.automata.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.automata.codepoints import CodePoints
from guided.automata.dfa import DEAD, dfa_from_regular
from guided.automata.regular import Alternate, Chars, Concat, Graph, Regular, Repeat
from guided.automata.utf8 import utf8_sequences
from guided.grammar.context_free import Body, Call, Choice, Hole, Sequence, Terminal, Times
from guided.network.letters import hole_letter, letter_of

__all__ = ["Bodies"]

_NOTHING = Concat(())
_SMALL = 64


class Bodies:
    """Turns bodies into expressions over letters; ``numbers`` tells the letters of rules.

    Bytes in ``missing`` are not spelled: no text of a terminal needs one of them.
    """

    def __init__(
        self, numbers: Mapping[str, int], ignored: tuple[Regular, ...], missing: Collection[int]
    ) -> None:
        self._numbers = numbers
        self._missing = missing
        self._spelled: dict[Regular, Regular] = {}
        self.blank: Regular = _NOTHING
        """What may stand before each terminal and at the end."""
        if ignored:
            self.blank = Repeat(self._bytes(Alternate(ignored)), 0, None)

    def letters(self, body: Body) -> Regular:
        """The expression of a body."""
        match body:
            case Terminal(regular):
                return self._terminal(regular)
            case Hole(number):
                letter = hole_letter(number)
                hole = Chars(CodePoints(((letter, letter),)))
                return hole if self.blank is _NOTHING else Concat((self.blank, hole))
            case Call(rule):
                letter = letter_of(self._numbers[rule])
                return Chars(CodePoints(((letter, letter),)))
            case Sequence(parts):
                return Concat(tuple(self.letters(part) for part in parts))
            case Choice(options):
                return self._choice(options)
            case Times(item, low, high):
                return Repeat(self.letters(item), low, high)

    def _choice(self, options: tuple[Body, ...]) -> Regular:
        # Terminals side by side are one, so that what is ignored stands before all of them once.
        terminals = [option.regular for option in options if isinstance(option, Terminal)]
        others = [self.letters(option) for option in options if not isinstance(option, Terminal)]
        if terminals:
            others.append(self._terminal(Alternate(tuple(terminals))))
        return others[0] if len(others) == 1 else Alternate(tuple(others))

    def _terminal(self, regular: Regular) -> Regular:
        spelled = self._bytes(regular)
        return spelled if self.blank is _NOTHING else Concat((self.blank, spelled))

    def _bytes(self, regular: Regular) -> Regular:
        spelled = self._spelled.get(regular)
        if spelled is None:
            spelled = None if self._missing else _as_bytes(regular)
            if spelled is None:
                dfa = byte_dfa_from_dfa(dfa_from_regular(regular), utf8_sequences, self._missing)
                spelled = _graph(dfa)
            self._spelled[regular] = spelled
        return spelled


def _as_bytes(regular: Regular) -> Regular | None:
    """A small expression over ASCII, which is one over bytes as it stands; ``None`` for others."""
    match regular:
        case Chars(chars):
            is_ascii = not chars.ranges or chars.ranges[-1][1] < 128
            return regular if is_ascii else None
        case Concat(parts) | Alternate(parts):
            is_small = len(parts) <= _SMALL and all(_as_bytes(part) for part in parts)
            return regular if is_small else None
        case Repeat(item, low, high):
            is_small = max(low, high or 0) <= 1 and _as_bytes(item) is not None
            return regular if is_small else None
    return None


def _graph(dfa: ByteDfa) -> Regular:
    """The texts of an automaton over bytes, with one end, which nothing leads on from."""
    if not len(dfa):
        return Alternate(())
    end = len(dfa)
    moves: list[tuple[int, CodePoints, int]] = []
    ranges = [
        [(int(byte), int(byte)) for byte in np.nonzero(dfa.byte_class == number)[0]]
        for number in range(dfa.next.shape[1])
    ]
    for state, targets in enumerate(dfa.next.tolist()):
        of_target: dict[int, list[tuple[int, int]]] = {}
        for number, target in enumerate(targets):
            if target != DEAD:
                of_target.setdefault(target, []).extend(ranges[number])
        for target, bytes_ in of_target.items():
            chars = CodePoints.of(bytes_)
            moves.append((state, chars, target))
            if dfa.label[target] != DEAD:
                moves.append((state, chars, end))
    graph = Graph(end + 1, tuple(moves), 0, end)
    return graph if dfa.label[0] == DEAD else Alternate((graph, _NOTHING))
