"""Builds the regular expressions over symbols from which the automata of rules are made.

A terminal becomes its bytes in UTF-8, with assertions for look-arounds at its edges; a special
token becomes the bytes that stand for it; calls and holes become one symbol each. What is ignored
is inserted before each terminal::

    pair: NAME "=" value      ->      ignored* NAME ignored* "=" call(value)

Large terminals are called like rules, so that no pass works on copies of them.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Final

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
    Regular,
    Repeat,
    SeparatedRepeat,
)
from guided.regular.utf8 import utf8_sequences
from guided.runtime.work_budget import pause_if_due

__all__ = ["RuleExpressions", "SeparatedRepetition", "merge_separated"]

# Bytes that no text contains, so it does not matter if the vocabulary lacks them.
_NEVER_IN_UTF8: Final = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
_NO_RULES: Final[Mapping[str, Body]] = {}
_SMALL: Final = 64
"""The most parts of an expression that is spelled in bytes without an automaton of its own."""
_LARGE: Final = 32
"""The least states of a terminal that is called like a rule."""


class RuleExpressions:
    """Builds expressions of bodies; ``numbers`` are those of the rules, from 1 on without gaps.

    Texts of terminals that need a byte in ``unavailable_bytes`` are left out. ``terminals`` and
    ``assertions`` grow with each body; their numbers do not change.
    """

    def __init__(
        self,
        numbers: Mapping[str, int],
        ignored: tuple[Terminal, ...],
        unavailable_bytes: Collection[int],
    ) -> None:
        self._numbers = numbers
        self._unavailable_bytes = frozenset(unavailable_bytes) - _NEVER_IN_UTF8
        self._spelling_cache: dict[Regular, Regular] = {}
        """By expression of a terminal, the same over bytes; so equal ones become one rule."""
        self.terminals: dict[int, Dfa] = {}
        """Terminals that are called like rules, by number; numbered after the rules."""
        self.assertions: dict[Assertion, int] = {}
        """By assertion its number: look-arounds at edges of terminals, and borders of ``Alone``."""
        self.ignored_texts: Regular = EMPTY_TEXT
        """What is ignored, repeated: it may precede each terminal and stand at the end."""
        if ignored:
            self.ignored_texts = Repeat(self._spell_terminals(ignored), 0, None)

    def build(self, body: Body, expanded: Mapping[str, Body] = _NO_RULES) -> Regular:
        """Return the expression of a body; calls of ``expanded`` rules become their bodies.

        Recursive: how deep bodies nest (``ContextFreeGrammar``) and how deep expansions nest
        (``expanded_rules``) is limited.
        """
        pause_if_due()
        match body:
            case Terminal():
                return self._build_terminals((body,))
            case Hole(number):
                return self._after_ignored(_symbol(Kind.HOLE, number))
            case Special(name):
                # Unavailable bytes do not matter: the token itself stands for these bytes.
                symbols = [_symbol(Kind.BYTE, byte) for byte in special_bytes(name)]
                return self._after_ignored(Concat(tuple(symbols)))
            case Call(rule) if rule in expanded:
                return self.build(expanded[rule], expanded)
            case Call(rule):
                return _symbol(Kind.CALL, self._numbers[rule])
            case Concatenation(parts):
                return Concat(
                    tuple([self._build_part(each, expanded) for each in merge_separated(parts)])
                )
            case Alternation(options):
                return self._build_choice(options, expanded)
            case Repetition(item, low, high):
                return Repeat(self.build(item, expanded), low, high)
            case Alone(item):
                begin, end = self._assertion(Border.BEGIN), self._assertion(Border.END)
                return Concat((begin, self.build(item, expanded), end))

    def _build_part(
        self, part: Body | SeparatedRepetition, expanded: Mapping[str, Body]
    ) -> Regular:
        if not isinstance(part, SeparatedRepetition):
            return self.build(part, expanded)
        item = self.build(part.item, expanded)
        return SeparatedRepeat(item, self.build(part.between, expanded))

    def _build_choice(self, options: tuple[Body, ...], expanded: Mapping[str, Body]) -> Regular:
        """Return the expression of an alternation; its terminals come last, as one option."""
        # As one option, what is ignored stands once before all of them.
        terminals = tuple(option for option in options if isinstance(option, Terminal))
        others = [
            self.build(option, expanded) for option in options if not isinstance(option, Terminal)
        ]
        if terminals:
            others.append(self._build_terminals(terminals))
        return others[0] if len(others) == 1 else Alternate(tuple(others))

    def _build_terminals(self, terminals: tuple[Terminal, ...]) -> Regular:
        return self._after_ignored(self._spell_terminals(terminals))

    def _after_ignored(self, part: Regular) -> Regular:
        return part if self.ignored_texts is EMPTY_TEXT else Concat((self.ignored_texts, part))

    def _spell_terminals(self, terminals: tuple[Terminal, ...]) -> Regular:
        """Return the expression over bytes of a choice of terminals, with assertions at edges.

        Terminals without assertions become one expression, from which one automaton is made: what
        they begin with in common is then read once. An ``Intersection`` must not be part of another
        expression, so it has to be the only terminal: see ``composition._separate_terminal``.
        """
        plain = [each.regular for each in terminals if not (each.before or each.after)]
        options: list[Regular] = [
            Concat(
                (
                    *map(self._assertion, terminal.before),
                    self._spell(terminal.regular),
                    *map(self._assertion, terminal.after),
                )
            )
            for terminal in terminals
            if terminal.before or terminal.after
        ]
        if plain:
            options.append(self._spell(plain[0] if len(plain) == 1 else Alternate(tuple(plain))))
        return options[0] if len(options) == 1 else Alternate(tuple(options))

    def _assertion(self, assertion: Assertion) -> Regular:
        number = self.assertions.setdefault(assertion, len(self.assertions))
        return _symbol(Kind.ASSERTION, number)

    def _spell(self, regular: Regular) -> Regular:
        spelled = self._spelling_cache.get(regular)
        if spelled is None:
            spelled = self._spelling_cache[regular] = self._spell_anew(regular)
        return spelled

    def _spell_anew(self, regular: Regular) -> Regular:
        """Return a terminal's expression over bytes: itself, a graph, or a call, by its size.

        Large terminals become rules that are called. ``_spell`` caches results. Raises
        LimitExceededError if the automaton is too large.
        """
        # Small ones are made deterministic only as a part of their rule.
        spelled = _spell_small(regular, self._unavailable_bytes)
        if spelled is not None:
            return spelled
        if isinstance(regular, Alternate) and len(regular.options) <= _SMALL:
            return Alternate(tuple(map(self._spell, regular.options)))
        dfa = byte_dfa_from_dfa(dfa_from_regular(regular), utf8_sequences, self._unavailable_bytes)
        automaton = Dfa(_bytes_of_classes(dfa), dfa.next, dfa.label)
        number = len(self._numbers) + len(self.terminals) + 1
        # A called rule must not have the empty text.
        if len(dfa) < _LARGE or dfa.label[0] != DEAD or number >= MAX_RULES:
            return automaton.to_regular()
        self.terminals[number] = automaton
        return _symbol(Kind.CALL, number)


class SeparatedRepetition:
    """A list, ``item (between item)*``.

    It has one copy of the item, in a loop, where the expression ``x (s x)*`` would have two.
    """

    __slots__ = ("between", "item")

    def __init__(self, item: Concatenation, between: Concatenation) -> None:
        self.item: Final = item
        self.between: Final = between


def merge_separated(parts: tuple[Body, ...]) -> Sequence[Body | SeparatedRepetition]:
    """Return the parts of a sequence, with each ``x (s x)*`` as one ``SeparatedRepetition``.

    ``x`` and ``s`` may be several parts, and ``s`` none.
    """
    found: list[Body | SeparatedRepetition] = []
    for part in parts:
        if found and isinstance(part, Repetition) and part.low == 0 and part.high is None:
            repeated = part.item.parts if isinstance(part.item, Concatenation) else (part.item,)
            # x: the longest common suffix of the parts so far and the repeated parts.
            common = 0
            while common < min(len(found), len(repeated)) and found[~common] == repeated[~common]:
                common += 1
            if common:
                at = len(repeated) - common
                found[len(found) - common :] = [
                    SeparatedRepetition(Concatenation(repeated[at:]), Concatenation(repeated[:at]))
                ]
                continue
        found.append(part)
    return found


def _symbol(kind: Kind, number: int) -> Regular:
    return Chars(symbol_set(kind, [number]))


def _spell_small(regular: Regular, unavailable_bytes: frozenset[int]) -> Regular | None:
    """Return a small expression with its characters spelled in bytes.

    ``None`` for large ones, for repeats that copy their item, and for kinds that need an automaton
    over characters, such as ``Intersection``.
    """
    match regular:
        case Chars(chars):
            return _spell_characters(chars, unavailable_bytes)
        case Concat(parts) | Alternate(parts):
            spelled = (
                [_spell_small(part, unavailable_bytes) for part in parts]
                if len(parts) <= _SMALL
                else []
            )
            made = tuple(part for part in spelled if part is not None)
            return type(regular)(made) if len(made) == len(parts) else None
        case Repeat(item, low, high) if max(low, high or 0) <= 1:
            inner = _spell_small(item, unavailable_bytes)
            return None if inner is None else Repeat(inner, low, high)
    return None


@functools.lru_cache(maxsize=1024)
def _spell_characters(chars: CodePoints, unavailable_bytes: frozenset[int]) -> Regular | None:
    """Return a set of characters as a choice of byte sequences; ``None`` if these are many."""
    # ASCII characters are their own bytes.
    if not unavailable_bytes and (not chars or chars.ranges[-1][1] < 128):
        return Chars(chars)
    if len(chars.ranges) > _SMALL:
        return None
    # A sequence that needs an unavailable byte gets an empty set there, which matches nothing.
    available = ~CodePoints.from_ranges((byte, byte) for byte in unavailable_bytes)
    options: list[Regular] = []
    for low, high in chars.ranges:
        for sequence in utf8_sequences(low, high):
            kept = tuple(Chars(CodePoints((bounds,)) & available) for bounds in sequence)
            options.append(Concat(kept))
    return Alternate(tuple(options)) if len(options) <= _SMALL else None


def _bytes_of_classes(dfa: ByteDfa) -> tuple[CodePoints, ...]:
    """Return the bytes of each class of an automaton, as sets."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(dfa.next.shape[1])]
    # The sentinel -1 ends the last run of bytes.
    classes: list[int] = [*dfa.byte_class.tolist(), -1]
    begin = 0
    for byte in range(256):
        if classes[byte + 1] != classes[byte]:
            found[classes[byte]].append((begin, byte))
            begin = byte + 1
    return tuple([CodePoints(tuple(ranges)) for ranges in found])
