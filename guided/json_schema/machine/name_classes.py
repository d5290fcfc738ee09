"""The names of an object's members that the schema does not spell out, by class."""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from guided.json_schema.formulas.formula import Formula
from guided.json_schema.machine.scalar_blocks import is_infinite
from guided.machine.block import Block, make_block
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.expression import Regular
from guided.regular.utf8 import json_string_sequences
from guided.runtime.work_budget import pause_if_due, spend

__all__ = ["NameClass", "NameSpace"]

MAX_EXPANSIONS: Final = 20_000
"""The most states expanded in the search for the names of one class."""


@dataclass(frozen=True, slots=True)
class NameClass:
    """Names that match the same patterns, and that fit the same formulas for names."""

    patterns: frozenset[Regular]
    formulas: frozenset[Formula]


class NameSpace:
    """All names, partitioned into classes by patterns and by formulas for names.

    The number of a class is its index in ``classes``, and its label in blocks of names. Some
    classes may have no name that can be spelled without ``missing``, the bytes that no token has.
    Immutable: ``NameStates`` caches rows by the identity of a space and the numbers of classes.
    """

    def __init__(
        self,
        patterns: tuple[Regular, ...],
        formulas: tuple[Formula, ...],
        pattern_dfa: Callable[[Regular], Dfa],
        formula_dfa: Callable[[Formula], Dfa],
        unavailable_bytes: Collection[int],
    ) -> None:
        self.patterns = patterns
        self.formulas = formulas
        self.unavailable_bytes = frozenset(unavailable_bytes)
        self.classes: list[NameClass] = []
        numbers: dict[NameClass, int] = {}

        def decide(labels: tuple[int, ...]) -> int:
            # Labels of the patterns first, then those of the formulas, as ``dfas`` below has them.
            found = NameClass(
                frozenset(p for p, label in zip(patterns, labels, strict=False) if label != DEAD),
                frozenset(
                    f
                    for f, label in zip(formulas, labels[len(patterns) :], strict=True)
                    if label != DEAD
                ),
            )
            number = numbers.setdefault(found, len(self.classes))
            if number == len(self.classes):
                self.classes.append(found)
            return number

        dfas = [*map(pattern_dfa, patterns), *map(formula_dfa, formulas)]
        if dfas:
            names = combine(dfas, decide)
            self._content = byte_dfa_from_dfa(names, json_string_sequences, unavailable_bytes)
        else:
            # All names are of one class, 0, as in ``_any_names``, which all recognisers share.
            decide(())
            assert len(self.classes) == 1
            self._content = _any_names(self.unavailable_bytes).dfa
        self._blocks: dict[frozenset[int], Block | None] = {}
        self._names_by_class: dict[int, ShortestTexts] = {}
        self._infinite: dict[int, bool] = {}

    def block(self, allowed: frozenset[int]) -> Block | None:
        """Return the block of the names of these classes, without quotes; ``None`` for no names.

        Labels are classes. The block is cached and must not be changed.
        """
        if allowed not in self._blocks:
            pause_if_due()
            if self.patterns or self.formulas:
                content = self._content.keep(allowed)
                self._blocks[allowed] = make_block(content) if len(content) else None
            else:
                self._blocks[allowed] = _any_names(self.unavailable_bytes) if allowed else None
        return self._blocks[allowed]

    def is_infinite(self, number: int) -> bool:
        """Return whether a class has infinitely many names that can be spelled."""
        if number not in self._infinite:
            pause_if_due()
            block = self.block(frozenset((number,)))
            self._infinite[number] = block is not None and is_infinite(block.dfa.next)
        return self._infinite[number]

    def unused_names(self, number: int, taken: Collection[bytes]) -> Iterator[bytes]:
        """Yield names of the class ``number`` that are not ``taken``, as JSON without quotes.

        The shortest come first. For a class of infinitely many names it is a sample: of bytes that
        lead to the same state, only a few are tried. May end early, see ``gave_up``.
        """
        for text in self._shortest_names(number):
            if text not in taken:
                yield text

    def gave_up(self, number: int) -> bool:
        """Return whether the search for names of a class ended at MAX_EXPANSIONS."""
        return self._shortest_names(number).gave_up

    def _shortest_names(self, number: int) -> ShortestTexts:
        """Return the names of a class, cached; all of them where there are finitely many."""
        names = self._names_by_class.get(number)
        if names is None:
            block = self.block(frozenset((number,)))
            names = ShortestTexts(block, every=not self.is_infinite(number))
            self._names_by_class[number] = names
        return names


class ShortestTexts:
    """The texts of a block, shortest first, found by A* with the exact number of bytes left.

    The search continues as far as texts are requested, up to MAX_EXPANSIONS. Unless ``every``, only
    ``_SAMPLE_SIZE`` bytes are tried of those that lead to the same state.
    """

    def __init__(self, block: Block | None, *, every: bool = False) -> None:
        self._every = every
        self._found: list[bytes] = []
        """The texts found so far, for all iterators."""
        self._expansions = 0
        self._ties = itertools.count()
        # The order: bytes in all, whether it continues, minus the bytes so far, a number for ties.
        # Then the state, the text and whether it has ended.
        self._heap: list[tuple[int, bool, int, int, int, bytes, bool]] = []
        # Without a block the heap stays empty, so what is set here is not read.
        if block is not None:
            self._dfa: ByteDfa = block.dfa
            self._left = block.distance
            self._bytes_of: list[list[int]] = [[] for _ in range(self._dfa.next.shape[1])]
            for byte, number in enumerate(self._dfa.byte_class.tolist()):
                self._bytes_of[number].append(byte)
            self._push(b"", 0, ended=False)

    def __iter__(self) -> Iterator[bytes]:
        for place in itertools.count():
            if place == len(self._found) and not self._find():
                return
            yield self._found[place]

    @property
    def gave_up(self) -> bool:
        """Whether there are more texts than the bounded work reached."""
        return bool(self._heap) and self._expansions >= MAX_EXPANSIONS

    def _push(self, text: bytes, state: int, *, ended: bool) -> None:
        """Put a text into the heap: complete if ``ended``, else one that continues in ``state``."""
        total = len(text) + (0 if ended else int(self._left[state]))
        # Complete texts come first among those of equal length.
        place = total, not ended, -len(text), next(self._ties)
        heapq.heappush(self._heap, (*place, state, text, ended))

    def _find(self) -> bool:
        """Append one more text to ``_found``; ``False`` if there is none or the work is used up."""
        while self._heap and self._expansions < MAX_EXPANSIONS:
            # Before anything changes: after an exceeded work budget, the search may continue later.
            spend(_EXPANSION_WORK)
            self._expansions += 1
            *_, at, text, ended = heapq.heappop(self._heap)
            if ended:
                self._found.append(text)
                return True
            if self._dfa.label[at] != DEAD:
                # Back into the heap, or a longer text might come before a shorter one.
                self._push(text, at, ended=True)
            for number, target in enumerate(self._dfa.next[at].tolist()):
                if target != DEAD:
                    bytes_ = self._bytes_of[number]
                    for byte in bytes_ if self._every else _sample(bytes_):
                        self._push(text + bytes((byte,)), target, ended=False)
        return False


@functools.lru_cache(maxsize=16)
def _any_names(unavailable_bytes: frozenset[int]) -> Block:
    """Return the block of all names, which recognisers share."""
    dfa = combine([], lambda _: 0)
    return make_block(byte_dfa_from_dfa(dfa, json_string_sequences, unavailable_bytes))


def _sample(bytes_: list[int]) -> list[int]:
    """Return at most ``_SAMPLE_SIZE`` of some bytes, letters and digits if there are any."""
    if len(bytes_) <= _SAMPLE_SIZE:
        return bytes_
    plain = [byte for byte in bytes_ if chr(byte).isalnum() and byte < 0x80]
    return (plain or bytes_)[:_SAMPLE_SIZE]


_SAMPLE_SIZE: Final = 64
_EXPANSION_WORK: Final = 100
"""Units of work per state whose moves are followed, a few bytes of each."""
