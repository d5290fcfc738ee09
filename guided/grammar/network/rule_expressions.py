"""The body of a rule as an expression over symbols, from which its automaton is made.

A terminal becomes its bytes, with an assertion where it looks around at its edges, and a special
token the bytes that are read for it; a call and a hole become one symbol each. What is ignored is
written out before each of them::

    pair: NAME "=" value      ->      blank* NAME blank* "=" call(value)

Large terminals are called as if they were rules, so that nothing is computed on copies of them.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from guided.grammar.context_free import (
    Alone,
    Alternation,
    Body,
    Call,
    Concatenation,
    Hole,
    Repetition,
    Special,
    Terminal,
)
from guided.grammar.network.lookarounds import Assertion, Border
from guided.grammar.network.symbols import MAX_RULES, Kind, symbol_set
from guided.machine.special_bytes import special_bytes
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import (
    EMPTY_TEXT,
    Alternate,
    Chars,
    Concat,
    Graph,
    Regular,
    Repeat,
    SeparatedRepeat,
)
from guided.regular.transitions import moves_of
from guided.regular.utf8 import utf8_sequences
from guided.runtime.fuel import pause_if_due

__all__ = ["RuleExpressions", "Separated", "with_lists"]

# Vocabularies need no tokens for these: no text of a terminal contains them.
_NEVER_IN_UTF8: Final = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
_NO_RULES: Final[Mapping[str, Body]] = {}
_SMALL: Final = 64
"""Parts of an expression that is made deterministic together with its surroundings."""
_LARGE: Final = 32
"""States of a terminal that is called."""


class RuleExpressions:
    """Turns bodies into expressions; ``numbers`` are those of the rules, from 1 on without gaps.

    Bytes in ``missing`` are not spelled: no text of a terminal needs one of them. ``terminals`` and
    ``assertions`` grow with each body; their numbers stay.
    """

    def __init__(
        self, numbers: Mapping[str, int], ignored: tuple[Terminal, ...], missing: Collection[int]
    ) -> None:
        self._numbers = numbers
        self._missing = frozenset(missing) - _NEVER_IN_UTF8
        self._spelled: dict[Regular, Regular] = {}
        """By expression of a terminal, the same over bytes: equal ones are one rule."""
        self.terminals: dict[int, Dfa] = {}
        """Terminals that are called, by number; these come after the numbers of rules."""
        self.assertions: dict[Assertion, int] = {}
        """Assertions at the edges of terminals and around what is ``Alone``, numbered."""
        self.blank: Regular = EMPTY_TEXT
        """What may stand before each terminal and at the end."""
        if ignored:
            self.blank = Repeat(self._texts(ignored), 0, None)

    def of(self, body: Body, written_out: Mapping[str, Body] = _NO_RULES) -> Regular:
        """Return the expression of a body; calls of ``written_out`` rules become their bodies.

        Recursive: bounds hold for how deep bodies nest (``ContextFreeGrammar``) and for how deep
        rules are written out in each other.
        """
        pause_if_due()
        match body:
            case Terminal():
                return self._terminals((body,))
            case Hole(number):
                return self._after_blank(_symbol(Kind.HOLE, number))
            case Special(name):
                # Bytes in ``missing`` are not removed: the token stands for itself, and spells
                # none.
                read = [_symbol(Kind.BYTE, byte) for byte in special_bytes(name)]
                return self._after_blank(Concat(tuple(read)))
            case Call(rule) if rule in written_out:
                return self.of(written_out[rule], written_out)
            case Call(rule):
                return _symbol(Kind.CALL, self._numbers[rule])
            case Concatenation(parts):
                return Concat(tuple([self._part(each, written_out) for each in with_lists(parts)]))
            case Alternation(options):
                return self._choice(options, written_out)
            case Repetition(item, low, high):
                return Repeat(self.of(item, written_out), low, high)
            case Alone(item):
                begin, end = self._assertion(Border.BEGIN), self._assertion(Border.END)
                return Concat((begin, self.of(item, written_out), end))

    def _part(self, part: Body | Separated, written_out: Mapping[str, Body]) -> Regular:
        if not isinstance(part, Separated):
            return self.of(part, written_out)
        item = self.of(part.item, written_out)
        return SeparatedRepeat(item, self.of(part.between, written_out))

    def _choice(self, options: tuple[Body, ...], written_out: Mapping[str, Body]) -> Regular:
        """Return the expression of an alternation; its terminals come last, as one option."""
        # Terminals side by side are one, so that what is ignored stands before all of them once.
        terminals = tuple(option for option in options if isinstance(option, Terminal))
        others = [
            self.of(option, written_out) for option in options if not isinstance(option, Terminal)
        ]
        if terminals:
            others.append(self._terminals(terminals))
        return others[0] if len(others) == 1 else Alternate(tuple(others))

    def _terminals(self, terminals: tuple[Terminal, ...]) -> Regular:
        return self._after_blank(self._texts(terminals))

    def _after_blank(self, part: Regular) -> Regular:
        return part if self.blank is EMPTY_TEXT else Concat((self.blank, part))

    def _texts(self, terminals: tuple[Terminal, ...]) -> Regular:
        """Return the texts of any of the terminals, with assertions about what is around them.

        Those that look at nothing around them become one expression, so a ``Intersection``, which is about
        whole texts, must not be one of several: ``composition._terminal`` ensures that.
        """
        plain = [each.regular for each in terminals if not (each.before or each.after)]
        options: list[Regular] = [
            Concat(
                (
                    *map(self._assertion, terminal.before),
                    self._bytes(terminal.regular),
                    *map(self._assertion, terminal.after),
                )
            )
            for terminal in terminals
            if terminal.before or terminal.after
        ]
        if plain:
            options.append(self._bytes(plain[0] if len(plain) == 1 else Alternate(tuple(plain))))
        return options[0] if len(options) == 1 else Alternate(tuple(options))

    def _assertion(self, assertion: Assertion) -> Regular:
        number = self.assertions.setdefault(assertion, len(self.assertions))
        return _symbol(Kind.ASSERTION, number)

    def _bytes(self, regular: Regular) -> Regular:
        spelled = self._spelled.get(regular)
        if spelled is None:
            spelled = self._spelled[regular] = self._spelling(regular)
        return spelled

    def _spelling(self, regular: Regular) -> Regular:
        """Return a terminal's expression over bytes: spelled out, as a graph, or as a call.

        The larger it is, the more a separate automaton saves. Only large ones are rules to be
        called. ``_bytes`` keeps it. Raises LimitExceededError if its automaton is too large.
        """
        # Small ones are made deterministic once, together with the rule that they stand in.
        spelled = _as_bytes(regular, self._missing)
        if spelled is not None:
            return spelled
        if isinstance(regular, Alternate) and len(regular.options) <= _SMALL:
            return Alternate(tuple(map(self._bytes, regular.options)))
        dfa = byte_dfa_from_dfa(dfa_from_regular(regular), utf8_sequences, self._missing)
        number = len(self._numbers) + len(self.terminals) + 1
        # A rule must not have the empty text when it is called, so such terminals are not rules.
        if len(dfa) < _LARGE or dfa.label[0] != DEAD or number >= MAX_RULES:
            return _graph(dfa)
        self.terminals[number] = Dfa(_classes(dfa), dfa.next, dfa.label)
        return _symbol(Kind.CALL, number)


class Separated:
    """A list: ``item``, once or more, with ``between`` between one and the next.

    It is one copy of the item in a loop, where ``x (s x)*`` would be two.
    """

    __slots__ = ("between", "item")

    def __init__(self, item: Concatenation, between: Concatenation) -> None:
        self.item: Final = item
        self.between: Final = between


def with_lists(parts: tuple[Body, ...]) -> Sequence[Body | Separated]:
    """Return the parts of a sequence, with each ``x (s x)*`` in it replaced by one ``Separated``.

    ``x`` and ``s`` may be several parts, and ``s`` none.
    """
    found: list[Body | Separated] = []
    for part in parts:
        if found and isinstance(part, Repetition) and part.low == 0 and part.high is None:
            again = part.item.parts if isinstance(part.item, Concatenation) else (part.item,)
            # x (s x)*: the longest end of the parts so far with which the repeat also ends.
            common = 0
            while common < min(len(found), len(again)) and found[~common] == again[~common]:
                common += 1
            if common:
                at = len(again) - common
                found[len(found) - common :] = [
                    Separated(Concatenation(again[at:]), Concatenation(again[:at]))
                ]
                continue
        found.append(part)
    return found


def _symbol(kind: Kind, number: int) -> Regular:
    return Chars(symbol_set(kind, [number]))


def _as_bytes(regular: Regular, missing: frozenset[int]) -> Regular | None:
    """Return a small expression with its characters spelled in bytes.

    ``None`` for large ones, for repeats that copy their item, and for all other kinds, such as
    ``Intersection``, which need an automaton over characters.
    """
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
    """Return a set of characters as a choice of byte sequences; ``None`` if these are many.

    Kept, as grammars repeat the same few sets; it depends only on the arguments.
    """
    # Characters of ASCII are their own bytes.
    if not missing and (not chars or chars.ranges[-1][1] < 128):
        return Chars(chars)
    if len(chars.ranges) > _SMALL:
        return None
    # A sequence that needs a missing byte keeps an empty set there, which matches nothing.
    gone = ~CodePoints.of((byte, byte) for byte in missing)
    options: list[Regular] = []
    for low, high in chars.ranges:
        for sequence in utf8_sequences(low, high):
            kept = tuple(Chars(CodePoints((bounds,)) & gone) for bounds in sequence)
            options.append(Concat(kept))
    return Alternate(tuple(options)) if len(options) <= _SMALL else None


def _graph(dfa: ByteDfa) -> Regular:
    """Return the texts of an automaton over bytes, as a graph with one end without moves."""
    if not len(dfa):
        return Alternate(())
    end = len(dfa)
    moves = moves_of(dfa.next)
    # A move to a state that accepts also leads to the end: a copy of it with another target.
    ending = moves[:, dfa.label[moves[1]] != DEAD]
    ending[1] = end
    graph = Graph(end + 1, _classes(dfa), np.concatenate([moves, ending], axis=1), 0, end)
    return graph if dfa.label[0] == DEAD else Alternate((graph, EMPTY_TEXT))


def _classes(dfa: ByteDfa) -> tuple[CodePoints, ...]:
    """Return the bytes of each class of an automaton."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(dfa.next.shape[1])]
    # The last entry differs from all classes, so that the last run of bytes ends too.
    classes: list[int] = [*dfa.byte_class.tolist(), -1]
    begin = 0
    for byte in range(256):
        if classes[byte + 1] != classes[byte]:
            found[classes[byte]].append((begin, byte))
            begin = byte + 1
    return tuple([CodePoints(tuple(ranges)) for ranges in found])
