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
"""The most texts looked at in the search for the names of one class."""


@dataclass(frozen=True, slots=True)
class NameClass:
    """Names that match the same patterns, and that fit the same formulas for names."""

    patterns: frozenset[Regular]
    formulas: frozenset[Formula]


class NameSpace:
    """All names, partitioned into classes by patterns and by formulas for names.

    The id of a class is its index in ``classes``, and its label in blocks of names. Some
    classes may have no name that can be spelled without ``unavailable_bytes``, those without a
    token. Immutable: ``NameStates`` caches rows by the identity of a space and the ids of classes.
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
        """By id."""
        id_by_class: dict[NameClass, int] = {}
        dfas = [*map(pattern_dfa, patterns), *map(formula_dfa, formulas)]
        if dfas:
            names = combine(dfas, lambda labels: self._class_of_labels(labels, id_by_class))
            self._content = byte_dfa_from_dfa(names, json_string_sequences, unavailable_bytes)
        else:
            # All names are of one class, 0, as in ``_any_names``, which all recognisers share.
            self._class_of_labels((), id_by_class)
            assert len(self.classes) == 1
            self._content = _any_names(self.unavailable_bytes).dfa
        self._blocks: dict[frozenset[int], Block | None] = {}
        """The results of ``block`` by the classes allowed."""
        self._names_by_class: dict[int, ShortestTexts] = {}
        """The results of ``_shortest_names`` by class."""
        self._infinite: dict[int, bool] = {}
        """The results of ``is_infinite`` by class."""

    def _class_of_labels(self, labels: tuple[int, ...], id_by_class: dict[NameClass, int]) -> int:
        """Return the class of a product state by the label of each automaton; may add one.

        Labels of the patterns come first, then those of the formulas.
        """
        of_patterns = zip(self.patterns, labels, strict=False)
        of_formulas = zip(self.formulas, labels[len(self.patterns) :], strict=True)
        found = NameClass(
            frozenset([pattern for pattern, label in of_patterns if label != DEAD]),
            frozenset([formula for formula, label in of_formulas if label != DEAD]),
        )
        class_id = id_by_class.setdefault(found, len(self.classes))
        if class_id == len(self.classes):
            self.classes.append(found)
        return class_id

    def block(self, allowed: frozenset[int]) -> Block | None:
        """Return the block of the names of these classes, without quotes; ``None`` for no names.

        Labels are classes. The block is cached and must not be changed.
        """
        if allowed not in self._blocks:
            pause_if_due()
            if self.patterns or self.formulas:
                content = self._content.keep_labels(allowed)
                self._blocks[allowed] = make_block(content) if len(content) else None
            else:
                self._blocks[allowed] = _any_names(self.unavailable_bytes) if allowed else None
        return self._blocks[allowed]

    def is_infinite(self, class_id: int) -> bool:
        """Return whether a class has infinitely many names that can be spelled."""
        if class_id not in self._infinite:
            pause_if_due()
            block = self.block(frozenset((class_id,)))
            self._infinite[class_id] = block is not None and is_infinite(block.dfa.next)
        return self._infinite[class_id]

    def unused_names(self, class_id: int, taken: Collection[bytes]) -> Iterator[bytes]:
        """Yield names of a class that are not ``taken``, as JSON without quotes.

        The shortest come first. For a class of infinitely many names it is a sample: of bytes that
        lead to the same state, only a few are tried. May end early, see ``gave_up``.
        """
        for text in self._shortest_names(class_id):
            if text not in taken:
                yield text

    @property
    def nbytes(self) -> int:
        """About how many bytes its automata and the searches for names take."""
        if not (self.patterns or self.formulas):
            return self._nbytes_of_searches()  # the automaton is shared by all recognisers
        # Copied first: another thread may add blocks meanwhile.
        blocks = [block.nbytes for block in list(self._blocks.values()) if block is not None]
        return self._content.nbytes + sum(blocks) + self._nbytes_of_searches()

    def _nbytes_of_searches(self) -> int:
        return sum([names.nbytes for names in list(self._names_by_class.values())])

    def gave_up(self, class_id: int) -> bool:
        """Return whether the search for names of a class ended at MAX_EXPANSIONS."""
        return self._shortest_names(class_id).gave_up

    def _shortest_names(self, class_id: int) -> ShortestTexts:
        """Return the names of a class, cached; all of them where there are finitely many."""
        names = self._names_by_class.get(class_id)
        if names is None:
            block = self.block(frozenset((class_id,)))
            names = ShortestTexts(block, every=not self.is_infinite(class_id))
            self._names_by_class[class_id] = names
        return names


class ShortestTexts:
    """The texts of a block, shortest first, found by A* with the exact number of bytes left.

    The search continues as far as texts are requested, up to MAX_EXPANSIONS. Unless ``every``, only
    ``_SAMPLE_SIZE`` bytes are tried of each byte class.
    """

    def __init__(self, block: Block | None, *, every: bool = False) -> None:
        self._found: list[bytes] = []
        """The texts found so far, for all iterators."""
        self._expansions = 0
        """How many entries were taken from the heap; at most MAX_EXPANSIONS."""
        self._text_bytes = 0
        """The bytes of all texts that are kept."""
        self._ties = 0
        """How many texts were put into the heap, which orders those that are otherwise equal."""
        # The order: bytes in all, whether it continues, minus the bytes so far, and ``_ties``. Then
        # the state, the text without its last byte, and the bytes that may be its last: texts that
        # differ there alone are one entry, in the place of the first of them.
        self._heap: list[tuple[int, bool, int, int, int, bytes, bytes]] = []
        # Without a block the heap stays empty, so what is set here is not read.
        if block is not None:
            self._dfa: ByteDfa = block.dfa
            self._left = block.distance
            bytes_of: list[list[int]] = [[] for _ in range(self._dfa.next.shape[1])]
            for byte, byte_class in enumerate(self._dfa.byte_class.tolist()):
                bytes_of[byte_class].append(byte)
            self._bytes_of = [bytes(each if every else _sample(each)) for each in bytes_of]
            """The bytes to try of each byte class of the automaton."""
            self._push(b"", b"", 0, ended=False)

    def __iter__(self) -> Iterator[bytes]:
        for index in itertools.count():
            if index == len(self._found) and not self._find():
                return
            yield self._found[index]

    @property
    def gave_up(self) -> bool:
        """Whether there are more texts than the bounded work reached."""
        return bool(self._heap) and self._expansions >= MAX_EXPANSIONS

    @property
    def nbytes(self) -> int:
        """About how many bytes the search takes, and what it found."""
        return _ENTRY_BYTES * (len(self._heap) + len(self._found)) + self._text_bytes

    def _push(self, text: bytes, last: bytes, state: int, *, ended: bool) -> None:
        """Put ``text`` with each of the ``last`` bytes into the heap, or without one if none is.

        Complete texts if ``ended``, else texts that continue in ``state``.
        """
        length = len(text) + bool(last)
        total = length + (0 if ended else int(self._left[state]))
        # Complete texts come first among those of equal length.
        heapq.heappush(self._heap, (total, not ended, -length, self._ties, state, text, last))
        self._text_bytes += len(text) + len(last)
        self._ties += max(1, len(last))

    def _find(self) -> bool:
        """Append one more text to ``_found``; ``False`` if there is none or the work is used up."""
        while self._heap and self._expansions < MAX_EXPANSIONS:
            # Before anything changes: after an exceeded work budget, the search may continue later.
            spend(_EXPANSION_WORK)
            self._expansions += 1
            total, continues, key, tie, at, before, last = heapq.heappop(self._heap)
            if len(last) > 1:
                heapq.heappush(self._heap, (total, continues, key, tie + 1, at, before, last[1:]))
                self._text_bytes += len(before) + len(last) - 1
            self._text_bytes -= len(before) + len(last)
            text = before + last[:1]
            if not continues:
                self._found.append(text)
                self._text_bytes += len(text)
                return True
            if self._dfa.label[at] != DEAD:
                # Back into the heap, ahead of all longer texts: its moves are to be followed first.
                self._push(text, b"", at, ended=True)
            for byte_class, target in enumerate(self._dfa.next[at].tolist()):
                if target != DEAD:
                    self._push(text, self._bytes_of[byte_class], target, ended=False)
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
_ENTRY_BYTES: Final = 150
"""About the bytes of an entry of the heap, or of a name, besides their texts."""
_EXPANSION_WORK: Final = 100
"""Units of work per state whose moves are followed, a few bytes of each."""
