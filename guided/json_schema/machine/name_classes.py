"""The names of an object's members that the schema does not spell out, by class."""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from guided.json_schema.formulas.formula import Formula
from guided.machine.block import Block, block_of
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.expression import Regular
from guided.regular.reachability import endless_states
from guided.regular.utf8 import json_string_sequences
from guided.runtime.fuel import pause_if_due, spend

__all__ = ["NameClass", "NameSpace"]

MAX_EXPANSIONS: Final = 20_000
"""States looked at in the search for names that are not taken."""


@dataclass(frozen=True, slots=True)
class NameClass:
    """Names that match the same patterns, and that fit the same formulas for names."""

    patterns: frozenset[Regular]
    fits: frozenset[Formula]


class NameSpace:
    """All names, distinguished by patterns and by formulas for names.

    A class is known by its index in ``classes``, which is its label in blocks of names. All classes
    are found at once, even those whose names cannot be spelled without the bytes ``missing``, which
    no token of the vocabulary has. ``NameStates`` keeps rows by the identity of a space and the
    numbers of classes, so ``patterns``, ``formulas`` and ``classes`` may not change once it is
    made.
    """

    def __init__(
        self,
        patterns: tuple[Regular, ...],
        formulas: tuple[Formula, ...],
        pattern_dfa: Callable[[Regular], Dfa],
        formula_dfa: Callable[[Formula], Dfa],
        missing: Collection[int],
    ) -> None:
        self.patterns = patterns
        self.formulas = formulas
        self.missing = frozenset(missing)
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
            self._content = byte_dfa_from_dfa(names, json_string_sequences, missing)
        else:
            # One class, with which ``_any_names``, kept for all recognisers, labels every name.
            decide(())
            assert len(self.classes) == 1
            self._content = _any_names(self.missing).dfa
        self._blocks: dict[frozenset[int], Block | None] = {}
        self._shortest: dict[int, ShortestTexts] = {}
        self._endless: dict[int, bool] = {}

    def block(self, allowed: frozenset[int]) -> Block | None:
        """Return the content of the names of these classes, by class; ``None`` for no names.

        Kept and shared by all callers, so it must not be changed.
        """
        if allowed not in self._blocks:
            pause_if_due()
            if self.patterns or self.formulas:
                content = self._content.keep(allowed)
                self._blocks[allowed] = block_of(content) if len(content) else None
            else:
                self._blocks[allowed] = _any_names(self.missing) if allowed else None
        return self._blocks[allowed]

    def is_endless(self, number: int) -> bool:
        """Return whether a class has infinitely many names.

        Kept; names are those that can be spelled without the bytes ``missing``.
        """
        if number not in self._endless:
            pause_if_due()
            block = self.block(frozenset((number,)))
            self._endless[number] = block is not None and _is_endless(block)
        return self._endless[number]

    def fresh(self, number: int, taken: Collection[bytes]) -> Iterator[bytes]:
        """Yield names of the class ``number`` that are not ``taken``, as JSON without quotes.

        The shortest come first. For a class of infinitely many names it is a sample: where nothing
        distinguishes bytes, only a few of them are tried. May end early, see ``gave_up``.
        """
        for text in self._shortest_names(number):
            if text not in taken:
                yield text

    def gave_up(self, number: int) -> bool:
        """Return whether the search for names of a class ended before the names did."""
        return self._shortest_names(number).gave_up

    def _shortest_names(self, number: int) -> ShortestTexts:
        """Return the names of a class, searched for once; all of them where the class has few."""
        names = self._shortest.get(number)
        if names is None:
            block = self.block(frozenset((number,)))
            names = ShortestTexts(block, every=not self.is_endless(number))
            self._shortest[number] = names
        return names


class ShortestTexts:
    """The texts of a block, shortest first: A* by the bytes left, bounded in work.

    They are searched for once, as far as they are needed; unless ``every`` one is wanted, only
    those with a few letters where nothing distinguishes many.
    """

    def __init__(self, block: Block | None, *, every: bool = False) -> None:
        self._every = every
        self._known: list[bytes] = []
        """What was found so far, for all iterators."""
        self._expansions = 0
        self._ties = itertools.count()
        # The order: bytes in all, whether it continues, minus the bytes so far, a number for ties.
        # Then the state, the text and whether it has ended.
        self._heap: list[tuple[int, bool, int, int, int, bytes, bool]] = []
        # Without a block the heap stays empty, so what is set here is not read.
        if block is not None:
            self._dfa: ByteDfa = block.dfa
            self._left = block.left
            self._bytes_of: list[list[int]] = [[] for _ in range(self._dfa.next.shape[1])]
            for byte, number in enumerate(self._dfa.byte_class.tolist()):
                self._bytes_of[number].append(byte)
            self._push(b"", 0, ended=False)

    def __iter__(self) -> Iterator[bytes]:
        for place in itertools.count():
            if place == len(self._known) and not self._find():
                return
            yield self._known[place]

    @property
    def gave_up(self) -> bool:
        """Whether there are more texts than the bounded work reached."""
        return bool(self._heap) and self._expansions >= MAX_EXPANSIONS

    def _push(self, text: bytes, state: int, *, ended: bool) -> None:
        """Put a text into the heap; ``ended`` if it is whole, else it continues from ``state``.

        The bytes left are exact, which is why texts come out in the order of their lengths.
        """
        total = len(text) + (0 if ended else int(self._left[state]))
        # What has ended comes first: before all that is as short was followed further.
        place = total, not ended, -len(text), next(self._ties)
        heapq.heappush(self._heap, (*place, state, text, ended))

    def _find(self) -> bool:
        """Find one more text; returns whether there is one.

        It becomes the last of ``_known``. Returns ``False`` if there are no more, or if the
        work is used up (``gave_up``), and keeps doing so.
        """
        while self._heap and self._expansions < MAX_EXPANSIONS:
            # Before anything changes: a search that runs out of fuel here continues another time.
            spend(_EXPANSION_WORK)
            self._expansions += 1
            *_, at, text, ended = heapq.heappop(self._heap)
            if ended:
                self._known.append(text)
                return True
            if self._dfa.label[at] != DEAD:
                # Back into the heap, or a longer text might come before a shorter one.
                self._push(text, at, ended=True)
            for number, target in enumerate(self._dfa.next[at].tolist()):
                if target != DEAD:
                    alike = self._bytes_of[number]
                    for byte in alike if self._every else _few(alike):
                        self._push(text + bytes((byte,)), target, ended=False)
        return False


@functools.lru_cache(maxsize=16)
def _any_names(missing: frozenset[int]) -> Block:
    """Return the content of all names, which most schemas leave free; recognisers share it."""
    dfa = combine([], lambda _: 0)
    return block_of(byte_dfa_from_dfa(dfa, json_string_sequences, missing))


@functools.lru_cache(maxsize=4)
def _is_endless(block: Block) -> bool:
    return bool(endless_states(block.dfa.next)[0])


def _few(alike: list[int]) -> list[int]:
    """Return a few of the bytes that nothing distinguishes, letters and digits first.

    At most ``_ENOUGH``, so that what is found is a sample (``NameSpace.fresh``).
    """
    if len(alike) <= _ENOUGH:
        return alike
    plain = [byte for byte in alike if chr(byte).isalnum() and byte < 0x80]
    return (plain or alike)[:_ENOUGH]


_ENOUGH: Final = 64
_EXPANSION_WORK: Final = 100
"""Units of work per state whose moves are followed, a few bytes of each."""
