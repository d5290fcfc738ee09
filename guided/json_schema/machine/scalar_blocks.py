"""Blocks for scalars, made once per process: what strings and numbers have in common.

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
from cachetools import LRUCache
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
    inside_first,
    parts_of,
    truth_vector,
)
from guided.json_schema.formulas.values import Json
from guided.machine.block import Block
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import Regular
from guided.regular.reachability import endless_states
from guided.runtime.fuel import spend

__all__ = [
    "ONLY_REQUIRED",
    "REQUIRED",
    "Signatures",
    "TruthLabels",
    "is_endless",
    "json_key",
    "pattern_dfa",
    "shared_block",
    "without_listed_choices",
]

REQUIRED: Final = 1
"""The truth vector of a value that fits the one formula asked of it."""
ONLY_REQUIRED: Final = frozenset((REQUIRED,))

MAX_CACHED_BYTES: Final = 64 * 2**20
_blocks: Final[LRUCache[Hashable, Block | None]] = LRUCache(
    MAX_CACHED_BYTES, getsizeof=lambda block: 64 if block is None else block.nbytes
)
_LEAST: Final = 1_000
_RANGE_BYTES: Final = 128
_LAZY: Final = 4
"""Bytes of an automaton per byte of its table: moves are listed when they are needed."""
_dfas: Final[LRUCache[Regular, Dfa]] = LRUCache(MAX_CACHED_BYTES, getsizeof=lambda dfa: _size(dfa))
_lock: Final = threading.RLock()
_LONGEST_KEPT: Final = 256
"""Code points of the longest string whose spelling is kept: callers choose how long strings are."""


def json_key(text: str) -> bytes:
    """Return the canonical spelling of a string in JSON, quotes included."""
    return _kept_json_key(text) if len(text) <= _LONGEST_KEPT else _json_key(text)


def _json_key(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


_kept_json_key: Final[Callable[[str], bytes]] = functools.lru_cache(maxsize=16_384)(_json_key)


def shared_block(key: Hashable, make: Callable[[], Block | None]) -> Block | None:
    """Return the block of a key, ``None`` if nothing fits; made at the first call.

    The key has to contain all that ``make`` depends on: other schemas get the same block, which
    must not be changed. Blocks that were not used for a long time are dropped, and made again when
    needed. A machine that laid the older one down then lays the new one down too.
    """
    with _lock:
        if key in _blocks:
            return _blocks[key]
    # Not under the lock: it may take long, and two threads that make the same do no harm.
    block = make()
    if block is None or block.nbytes < MAX_CACHED_BYTES:
        with _lock:
            _blocks[key] = block
    return block


def pattern_dfa(pattern: Regular) -> Dfa:
    """Return the automaton of the strings in which a pattern matches, kept for other schemas.

    It must not be changed. Two threads may make the same one at once, which does no harm.
    """
    with _lock:
        dfa = _dfas.get(pattern)
    if dfa is None:
        dfa = dfa_from_regular(pattern, search=True)
        if _size(dfa) < _dfas.maxsize:
            with _lock:
                _dfas[pattern] = dfa
    return dfa


def _size(dfa: Dfa) -> int:
    """Return about how many bytes an automaton takes."""
    ranges = sum([len(chars.ranges) for chars in dfa.classes])
    return _LEAST + _LAZY * dfa.next.nbytes + _RANGE_BYTES * ranges


class TruthLabels:
    """Labels for truth vectors, numbered as they come up: which formulas hold by which assertions.

    If ``truths`` are given, other truth vectors get no label.
    """

    def __init__(
        self, leaves: list[Leaf], asks: tuple[Formula, ...], truths: frozenset[int] | None
    ) -> None:
        self.leaves = leaves
        self.asks = asks
        self.truths = truths
        self.found: list[int] = []
        """The truth vector of each label; ``_numbers`` is the inverse."""
        self._numbers: dict[int, int] = {}

    def __call__(self, fits: list[bool]) -> int:
        """Return the label of values of which ``fits`` says which leaves hold; DEAD if unwanted.

        Labels are numbered as truth vectors come up; ``found`` has the vector of each. Entries of
        ``fits`` beyond the leaves are ignored.
        """
        # Called for each state of a product of automata.
        spend(len(self.leaves) // 4 + len(self.asks))
        held = dict(zip(self.leaves, fits, strict=False))
        truth = truth_vector(evaluate(ask, held.__getitem__) for ask in self.asks)
        if self.truths is not None and truth not in self.truths:
            return DEAD
        number = self._numbers.setdefault(truth, len(self.found))
        if number == len(self.found):
            self.found.append(truth)
        return number


class Signature:
    """What a formula asks without its parts, and the signatures of its parts; hashed once."""

    __slots__ = ("_hash", "parts", "said")

    def __init__(self, said: Hashable, parts: tuple[Signature, ...]) -> None:
        self.said: Final = said
        self.parts = parts
        self._hash: Final[int] = hash((said, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare without recursion; equal ones share their parts from then on.

        Compares what is asked and the order of parts, never the formulas: these belong to one
        grammar.
        """
        if not isinstance(other, Signature):
            return False
        # Parts are shared, so their number grows with the paths to them: compare each once.
        compared: set[tuple[int, int]] = set()
        waiting: list[tuple[Signature, Signature]] = [(self, other)]
        while waiting:
            one, two = waiting.pop()
            pair = (id(one), id(two))
            if one is two or pair in compared:
                continue
            if one._hash != two._hash or one.said != two.said or len(one.parts) != len(two.parts):
                return False
            compared.add(pair)
            if one.parts is not two.parts:
                waiting += zip(one.parts, two.parts, strict=True)
        other.parts = self.parts
        return True


class Signatures:
    """The signatures of the formulas of one grammar."""

    def __init__(self) -> None:
        self._known: dict[Formula, Signature] = {}

    def of(self, formula: Formula) -> Signature:
        """Return a formula's signature without schema nodes, which mean nothing elsewhere.

        Signatures may be keys of caches that live longer than the grammar, so they hold no formula
        of it.
        """
        found = self._known.get(formula)
        if found is None:
            for node in inside_first(formula, self._known):
                parts = tuple([self._known[part] for part in parts_of(node)])
                self._known[node] = Signature(_said(node), parts)
            found = self._known[formula]
        return found


def _said(formula: Formula) -> Hashable:
    """Return what a formula asks besides its parts.

    Only for formulas about strings or numbers, whose assertions hold no formulas of the grammar.
    """
    assert not isinstance(formula, SchemaNode), formula
    if isinstance(formula, Constant):
        return formula.value
    return formula.assertion if isinstance(formula, Leaf) else type(formula).__name__


def without_listed_choices(
    ask: Formula, formulas: Formulas, kind: type[StringChoices | NumberChoices]
) -> tuple[Formula, set[Json]]:
    """Return a formula without the strings or numbers that it forbids by a list, and those values.

    Only lists that it negates outright are taken out: a value fits the whole if it fits what is
    left and is none of those.
    """
    banned: set[Json] = set()
    others: list[Formula] = []
    for part in conjuncts(ask):
        item = part.item if isinstance(part, Not) else None
        if isinstance(item, Leaf) and isinstance(item.assertion, kind):
            banned.update(item.assertion.values)
        else:
            others.append(part)
    return formulas.all_of(others), banned


def is_endless(table: NDArray[np.int32]) -> bool:
    """Return whether an automaton accepts infinitely many texts: its start leads to a cycle."""
    return len(table) > 0 and bool(endless_states(table)[0])
