"""Blocks of strings and numbers, cached for the whole process, and what the two have in common.

The labels of a block say which of several formulas a value fits. That is its *truth vector*, a bit
for each formula: bit ``i`` is set if the value fits the ``i``-th.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from guided.json_schema.formulas.assertions import NumberChoices, StringChoices
from guided.json_schema.formulas.formula import (
    Constant,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
    conjuncts,
    evaluate,
    pack_truth_vector,
    parts_of,
    postorder,
)
from guided.json_schema.formulas.key_size import key_size
from guided.json_schema.formulas.values import Json
from guided.machine.block import Block
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import Regular, Value
from guided.regular.reachability import states_reaching_cycle
from guided.runtime.work_budget import spend

__all__ = [
    "ONLY_REQUIRED",
    "REQUIRED",
    "Signatures",
    "VectorLabels",
    "is_infinite",
    "json_literal",
    "pattern_dfa",
    "shared_block",
    "split_forbidden_choices",
]

REQUIRED: Final = 1
"""The truth vector of a value that fits the one formula asked of it."""
ONLY_REQUIRED: Final = frozenset((REQUIRED,))

MAX_CACHED_BYTES: Final = 64 * 2**20
_blocks: Final[LRUCache[Hashable, tuple[Block | None, int]]] = LRUCache(
    MAX_CACHED_BYTES, getsizeof=lambda kept: kept[1]
)
"""Blocks, and about how many bytes each takes together with its key."""
_DFA_BYTES: Final = 1_000
_RANGE_BYTES: Final = 128
_BYTES_PER_TABLE_BYTE: Final = 4
"""About how many bytes an automaton takes per byte of its table, with what it computes later."""
_dfas: Final[LRUCache[Regular, tuple[Dfa, int]]] = LRUCache(
    MAX_CACHED_BYTES, getsizeof=lambda kept: kept[1]
)
"""Automata, and about how many bytes each takes together with its pattern."""
_MAX_CACHED_LENGTH: Final = 256
"""The most code points of a string whose spelling is cached."""


def json_literal(text: str) -> bytes:
    """Return the canonical spelling of a string in JSON, quotes included."""
    return _cached_json_literal(text) if len(text) <= _MAX_CACHED_LENGTH else _json_literal(text)


def _json_literal(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


_cached_json_literal: Final[Callable[[str], bytes]] = functools.lru_cache(maxsize=16_384)(
    _json_literal
)


def shared_block(key: Hashable, make: Callable[[], Block | None]) -> Block | None:
    """Return the block of a key from a cache of the process, else that of ``make``.

    ``None`` if nothing fits. The key has to contain all that ``make`` depends on. The block must
    not be changed. Blocks are evicted and made again, so that equal keys may get different objects.
    """
    return _kept_block(key, make)[0]


@cached(_blocks, key=lambda key, _: key, lock=threading.RLock())
def _kept_block(key: Hashable, make: Callable[[], Block | None]) -> tuple[Block | None, int]:
    block = make()
    return block, key_size(key) + (0 if block is None else block.nbytes)


def pattern_dfa(pattern: Regular) -> Dfa:
    """Return the automaton of the strings in which a pattern matches, cached for the process.

    It must not be changed.
    """
    return _kept_dfa(pattern)[0]


@cached(_dfas, key=lambda pattern: pattern, lock=threading.RLock())
def _kept_dfa(pattern: Regular) -> tuple[Dfa, int]:
    dfa = dfa_from_regular(pattern, search=True)
    return dfa, key_size(pattern) + _size(dfa)


def _size(dfa: Dfa) -> int:
    """Return about how many bytes an automaton takes."""
    ranges = sum([len(chars.ranges) for chars in dfa.classes])
    return _DFA_BYTES + _BYTES_PER_TABLE_BYTE * dfa.next.nbytes + _RANGE_BYTES * ranges


class VectorLabels:
    """Assigns truth vectors the labels of a product automaton: 0, 1, …, as they come up.

    ``leaves`` are the assertions of ``formulas``. Truth vectors that are not ``wanted`` get DEAD;
    ``None`` wants all.
    """

    def __init__(
        self, leaves: list[Leaf], formulas: tuple[Formula, ...], wanted: frozenset[int] | None
    ) -> None:
        self.leaves = leaves
        self.formulas = formulas
        self.wanted = wanted
        self.vectors: list[int] = []
        """The truth vector of each label; ``_label_by_vector`` is the inverse."""
        self._label_by_vector: dict[int, int] = {}

    def __call__(self, fits: list[bool]) -> int:
        """Return the label of values for which the leaves hold as ``fits`` says; DEAD if unwanted.

        Entries of ``fits`` beyond the leaves are ignored.
        """
        # Called for each state of a product of automata.
        spend(len(self.leaves) // 4 + len(self.formulas))
        held = dict(zip(self.leaves, fits, strict=False))
        truth_vector = pack_truth_vector(
            evaluate(formula, held.__getitem__) for formula in self.formulas
        )
        if self.wanted is not None and truth_vector not in self.wanted:
            return DEAD
        number = self._label_by_vector.setdefault(truth_vector, len(self.vectors))
        if number == len(self.vectors):
            self.vectors.append(truth_vector)
        return number


class Signature(Value):
    """The structure of a formula without references to its grammar: equal if formulas are."""

    __slots__ = ("entries",)
    __match_args__: Final = ("entries",)

    def __init__(self, entries: tuple[tuple[Hashable, tuple[int, ...]], ...]) -> None:
        super().__init__(entries)
        self.entries: Final = entries
        """All formulas inside, each after its parts, which are indices of earlier entries."""


class Signatures:
    """The signatures of the formulas of one grammar."""

    def __init__(self) -> None:
        self._cache: dict[Formula, Signature] = {}
        """The results of ``of`` by formula."""

    def of(self, formula: Formula) -> Signature:
        """Return the signature of a formula over assertions about strings or numbers.

        It may be a key in caches that live longer than the grammar: other assertions would not do,
        as they hold formulas.
        """
        found = self._cache.get(formula)
        if found is None:
            index: dict[Formula, int] = {}
            entries: list[tuple[Hashable, tuple[int, ...]]] = []
            for node in postorder(formula, index):
                entries.append((_content(node), tuple([index[part] for part in parts_of(node)])))
                index[node] = len(index)
            found = self._cache[formula] = Signature(tuple(entries))
        return found


def _content(formula: Formula) -> Hashable:
    """Return what distinguishes a formula from others with equal parts."""
    assert not isinstance(formula, SchemaNode), formula
    if isinstance(formula, Constant):
        return formula.value
    return formula.assertion if isinstance(formula, Leaf) else type(formula).__name__


def split_forbidden_choices(
    formula: Formula, formulas: Formulas, kind: type[StringChoices | NumberChoices]
) -> tuple[Formula, set[Json]]:
    """Split negated lists off a conjunction: return the rest, and the values that they forbid.

    ``kind`` is the class of the lists. A value fits ``formula`` if it fits the rest and is not
    forbidden.
    """
    banned: set[Json] = set()
    others: list[Formula] = []
    for part in conjuncts(formula):
        item = part.item if isinstance(part, Not) else None
        if isinstance(item, Leaf) and isinstance(item.assertion, kind):
            banned.update(item.assertion.values)
        else:
            others.append(part)
    return formulas.all_of(others), banned


def is_infinite(table: NDArray[np.int32]) -> bool:
    """Return whether a trimmed automaton accepts infinitely many texts: it has a cycle."""
    return len(table) > 0 and bool(states_reaching_cycle(table)[0])
