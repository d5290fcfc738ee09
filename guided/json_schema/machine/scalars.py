"""Blocks for the scalars of JSON, shared by all schemas that ask for the same ones."""

from __future__ import annotations

import functools
import itertools
import json
import threading
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from guided.json_schema.formulas.assertions import (
    Assertion,
    Bound,
    Length,
    Matches,
    NumberChoices,
    Numbers,
    StringChoices,
)
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    AllOf,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
    evaluate,
    leaves_of,
)
from guided.json_schema.formulas.number_spellings import exact_text, shortest_spellings
from guided.json_schema.formulas.number_tables import HOLDS
from guided.json_schema.formulas.numbers import (
    digit_limit,
    holds,
    narrowing,
    number_dfa,
    number_verdicts,
)
from guided.json_schema.machine.signatures import Signatures
from guided.machine.block import CLOSE_STRING, INSIDE, START, TICK, Block, block_of
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, combine, dfa_from_regular, length_dfa, without
from guided.regular.example import short_match
from guided.regular.expression import Regular
from guided.regular.reachability import endless_states
from guided.regular.shortest import fewer_code_points
from guided.regular.utf8 import any_json_string_sequences, json_string_sequences, utf8_sequences
from guided.runtime.fuel import spend
from guided.spec import JsonOptions, Spelling

__all__ = ["Scalars", "choices_dfa", "json_key", "pattern_dfa"]

MAX_CACHED_BYTES: Final = 64 * 2**20
_blocks: Final[LRUCache[Hashable, Block | None]] = LRUCache(
    MAX_CACHED_BYTES, getsizeof=lambda block: 64 if block is None else block.nbytes
)
_dfas: Final[LRUCache[Regular, Dfa]] = LRUCache(
    MAX_CACHED_BYTES, getsizeof=lambda dfa: dfa.next.nbytes + 256 * len(dfa.classes)
)
_lock: Final = threading.RLock()
MUST: Final = 1
"""The verdict on a value that fits the one formula asked of it."""
_ALL_MUST: Final = frozenset((MUST,))


@functools.lru_cache(maxsize=16_384)
def json_key(text: str) -> bytes:
    """The canonical spelling of a string in JSON, quotes included."""
    return json.dumps(text, ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Scalars:
    """Blocks for strings and numbers that fit formulas, as one recogniser spells them.

    A block tells by its labels which of several formulas a value fits: bit ``i`` of the verdict is
    set where it fits the ``i``-th. Where ``verdicts`` are given, no others come out.
    """

    formulas: Formulas
    options: JsonOptions
    missing: frozenset[int]
    _signatures: Signatures = field(default_factory=Signatures)
    _dfas: dict[Leaf, Dfa] = field(default_factory=dict)
    _endless_strings: dict[Formula, bool] = field(default_factory=dict)
    _endless_numbers: dict[Formula, bool] = field(default_factory=dict)

    # --- strings --------------------------------------------------------------------------

    def listed(
        self, asks: tuple[Formula, ...], verdicts: Collection[int]
    ) -> list[tuple[str, int]] | None:
        """The strings with one of the verdicts, and that verdict, where assertions list them all.

        Listed strings and names of members keep their canonical spelling.
        """
        texts: dict[str, None] = {}
        bounded = 0
        for number, ask in enumerate(asks):
            listed = [] if ask is FALSE else self.listed_strings(ask)
            if listed is not None:
                bounded |= 1 << number
                texts.update(dict.fromkeys(listed))
        if not bounded or not all(verdict & bounded for verdict in verdicts):
            return None
        if len(asks) == 1:
            return [(text, MUST) for text in texts]
        judged = [
            (text, sum(self.string_fits(ask, text) << i for i, ask in enumerate(asks)))
            for text in texts
        ]
        return [(text, verdict) for text, verdict in judged if verdict in verdicts]

    def string_block(self, asks: tuple[Formula, ...], verdicts: frozenset[int]) -> Block | None:
        """JSON strings, quotes included; ``None`` where there are none.

        ``asks`` are formulas over assertions about strings. Raises LimitExceededError for an
        automaton that grows too large.
        """
        key = ("string", self._spelled, tuple(map(self._signatures.of, asks)), verdicts)
        with _lock:
            if key in _blocks:
                return _blocks[key]
        block = self._string_block(asks, verdicts, key)
        with _lock:
            if block is None or block.nbytes < MAX_CACHED_BYTES:
                _blocks[key] = block
        return block

    @property
    def _spelled(self) -> Hashable:
        return (self.options.spelling, self.options.max_string_length, self.missing)

    def _string_block(
        self, asks: tuple[Formula, ...], verdicts: frozenset[int], key: Hashable
    ) -> Block | None:
        longest = self._longest_listed(asks)
        if len(asks) == 1 and verdicts == _ALL_MUST:
            whole, (asks, (low, high)) = asks, _without_length(asks[0], self.formulas)
            if high is not None and longest >= high:
                # Counted beside the automaton, a text could grow into one that is banned.
                asks, low, high = whole, 0, None
            if low and asks != (TRUE,):
                # Least lengths are counted beside the automaton where nothing else is asked.
                asks, low = (self.formulas.all_of([*asks, self._leaf(Length(low, None))]),), 0
        else:
            low, high = 0, None
        if asks == (TRUE,) and high is not None:
            return self._counted(low, high, key)
        return self._block_within(asks, verdicts, (low, high), longest, key)

    def _counted(self, low: int, high: int, key: Hashable) -> Block | None:
        """Strings of which only the length is asked: all of them are laid down alike."""
        alike = ("counted", self._spelled)
        with _lock:
            block = _blocks.get(alike)
        if block is None:
            block = self._block_within((TRUE,), frozenset((MUST,)), (0, high), -1, alike)
            if block is None:
                return None
            with _lock:
                _blocks[alike] = block
        if low > high:
            return None
        left = block.left.copy()
        left[_starts(block)] += low
        return replace(block, left=left, bounds=(low, high), key=key)

    def _block_within(
        self,
        asks: tuple[Formula, ...],
        verdicts: frozenset[int],
        bounds: tuple[int, int | None],
        longest: int,
        key: Hashable,
    ) -> Block | None:
        """Strings of some verdicts whose code points are counted beside the automaton."""
        low, high = bounds
        dfa, found = self._judged(asks, verdicts)
        plain = all(isinstance(leaf.assertion, Length) for leaf in leaves_of(asks))
        freely = plain and self.options.spelling is Spelling.ANY
        sequences = any_json_string_sequences if freely else json_string_sequences
        content = byte_dfa_from_dfa(dfa, sequences, self.missing)
        if not len(content):
            return None
        need = _code_points_left(content)
        bound = self.options.max_string_length if high is None else high
        if bound is not None and high is None:
            bound = max(bound, 2 * int(need[0]), low, longest + 1)
        if high is not None and max(low, int(need[0])) > high:
            return None
        return _quoted(content, need, (low, bound), key, tuple(found))

    @staticmethod
    def _longest_listed(asks: Iterable[Formula]) -> int:
        """The code points of the longest string that assertions list."""
        return max(
            (
                len(text)
                for leaf in leaves_of(asks)
                if isinstance(leaf.assertion, StringChoices)
                for text in leaf.assertion.values
            ),
            default=-1,
        )

    def _is_too_long(self, text: str, ask: Formula) -> bool:
        """Whether a string is longer than the bound that holds where a schema sets none."""
        bound = self.options.max_string_length
        return bound is not None and len(text) > max(bound, self._longest_listed((ask,)) + 1)

    def _leaf(self, assertion: Assertion) -> Leaf:
        return self.formulas.leaf(assertion)

    def _judged(
        self, asks: tuple[Formula, ...], verdicts: frozenset[int] | None
    ) -> tuple[Dfa, list[int]]:
        """The content of the strings with one of some verdicts, and the verdict of each label."""
        if len(asks) == 1 and verdicts == _ALL_MUST:
            ask, banned = _without_banned(asks[0], self.formulas)
            if banned:
                dfa, found = self._judged((ask,), verdicts)
                return without(dfa, banned), found
        leaves = leaves_of(asks)
        if len(leaves) == 1 and asks == (leaves[0],) and verdicts == _ALL_MUST:
            return self.leaf_dfa(leaves[0]), [MUST]
        # Lists are one automaton however many they are: side by side they would take very long.
        lists = [leaf for leaf in leaves if isinstance(leaf.assertion, StringChoices)]
        others = [leaf for leaf in leaves if not isinstance(leaf.assertion, StringChoices)]
        dfas = [self.leaf_dfa(leaf) for leaf in others]
        listed, holding = _listed_dfa(lists)
        judge = _Judge([*others, *lists], asks, verdicts)

        def decide(labels: tuple[int, ...]) -> int:
            fits = [label != DEAD for label in labels[: len(others)]]
            return judge(fits + holding[labels[-1] if lists else DEAD])

        return combine([*dfas, listed] if lists else dfas, decide), judge.found

    def leaf_dfa(self, leaf: Leaf) -> Dfa:
        """The content of the strings that fit one assertion."""
        found = self._dfas.get(leaf)
        if found is None:
            found = self._dfas[leaf] = self._leaf_dfa(leaf.assertion)
        return found

    def _leaf_dfa(self, about: Assertion) -> Dfa:
        if isinstance(about, Matches):
            return pattern_dfa(about.pattern)
        if isinstance(about, Length):
            return length_dfa(about.low, about.high)
        assert isinstance(about, StringChoices), about
        return choices_dfa(dict.fromkeys(about.values, 0))

    def formula_dfa(self, ask: Formula) -> Dfa:
        """The content of the strings that fit a formula."""
        return self._judged((ask,), _ALL_MUST)[0]

    def string_verdicts(self, asks: tuple[Formula, ...]) -> list[int]:
        """All verdicts that strings can have."""
        return self._judged(asks, None)[1]

    def listed_strings(self, ask: Formula) -> list[str] | None:
        """All strings that fit a formula, where an assertion lists those that may."""
        lists: list[tuple[str, ...]] = []
        others: list[Formula] = []
        banned: set[str] = set()
        for part in ask.parts if isinstance(ask, AllOf) else (ask,):
            if (values := _choices(part)) is not None:
                lists.append(values)
            elif isinstance(part, Not) and (values := _choices(part.item)) is not None:
                banned.update(values)
            else:
                others.append(part)
        if not lists:
            return None
        listed = min(lists, key=len)
        common = set(listed).intersection(*lists)
        rest = self.formulas.all_of(others)
        return [
            text
            for text in listed
            if text in common and text not in banned and self.string_fits(rest, text)
        ]

    def has_endless_strings(self, ask: Formula) -> bool:
        """Whether strings without end fit and can be spelled."""
        ask, _ = _without_banned(ask, self.formulas)
        if ask is TRUE:
            return True
        found = self._endless_strings.get(ask)
        if found is None:
            found = ask is not FALSE and self._are_endless_strings(ask)
            self._endless_strings[ask] = found
        return found

    def _are_endless_strings(self, ask: Formula) -> bool:
        if self.listed_strings(ask) is not None:
            return False
        dfa = self.formula_dfa(ask)
        if self.missing:
            return _is_endless(byte_dfa_from_dfa(dfa, json_string_sequences, self.missing).next)
        return _is_endless(dfa.next)

    def has_endless_numbers(self, ask: Formula) -> bool:
        """Whether numbers without end fit: spellings of few numbers are many as well."""
        ask, _ = _without_banned_numbers(ask, self.formulas)
        found = self._endless_numbers.get(ask)
        if found is None:
            found = ask is not FALSE and self._are_endless_numbers(ask)
            self._endless_numbers[ask] = found
        return found

    def _are_endless_numbers(self, ask: Formula) -> bool:
        fitting, _ = self._numbers((ask,), _ALL_MUST)
        different = combine(
            [fitting, shortest_spellings()], lambda labels: DEAD if DEAD in labels else HOLDS
        )
        return _is_endless(byte_dfa_from_dfa(different, utf8_sequences, self.missing).next)

    def without_listed(
        self, asks: tuple[Formula, ...]
    ) -> tuple[tuple[Formula, ...], dict[str, int]]:
        """What is asked of strings that no assertion lists, and the verdicts on those listed.

        No strings where one of them is as long as may be, or cannot be spelled.
        """
        texts: dict[str, None] = {}
        for leaf in leaves_of(asks):
            if isinstance(leaf.assertion, StringChoices):
                texts.update(dict.fromkeys(leaf.assertion.values))
        if not texts or len(texts) > _MOST_LISTED:
            return asks, {}

        def unlisted(node: Leaf | SchemaNode) -> Formula:
            assert isinstance(node, Leaf), node
            return FALSE if isinstance(node.assertion, StringChoices) else node

        others = tuple(self.formulas.replace(ask, unlisted) for ask in asks)
        longest = max(map(len, texts))
        bounds = [self.options.max_string_length]
        bounds += [
            leaf.assertion.high for leaf in leaves_of(others) if isinstance(leaf.assertion, Length)
        ]
        if any(bound is not None and longest >= bound for bound in bounds):
            return asks, {}
        if not all(self.missing.isdisjoint(json_key(text)) for text in texts):
            return asks, {}
        return others, {
            text: sum(self.string_fits(ask, text) << i for i, ask in enumerate(asks))
            for text in texts
        }

    def string_fits(self, ask: Formula, text: str) -> bool:
        """Whether one string fits a formula over assertions about strings."""
        return evaluate(ask, lambda leaf: self._string_holds(leaf, text))

    def _string_holds(self, leaf: Leaf, text: str) -> bool:
        about = leaf.assertion
        if isinstance(about, StringChoices):
            return text in about.values
        if isinstance(about, Length):
            return about.low <= len(text) and (about.high is None or len(text) <= about.high)
        assert isinstance(about, Matches), about
        return self.leaf_dfa(leaf).accepts(text)

    # --- numbers --------------------------------------------------------------------------

    def number_block(self, asks: tuple[Formula, ...], verdicts: frozenset[int]) -> Block | None:
        """JSON numbers, as ``string_block`` does strings."""
        digits = (self.options.spelling, self.options.max_number_digits, self.missing)
        key = ("number", digits, tuple(map(self._signatures.of, asks)), verdicts)
        with _lock:
            if key in _blocks:
                return _blocks[key]
        judged, found = self._numbers(asks, verdicts)
        dfa = byte_dfa_from_dfa(judged, utf8_sequences, self.missing)
        block = block_of(dfa, key=key, verdicts=tuple(found)) if len(dfa) else None
        with _lock:
            _blocks[key] = block
        return block

    def _numbers(
        self, asks: tuple[Formula, ...], verdicts: frozenset[int] | None
    ) -> tuple[Dfa, list[int]]:
        merged = tuple(_merged_numbers(ask, self.formulas) for ask in asks)
        leaves = leaves_of(merged)
        abouts = [_about_numbers(leaf) for leaf in leaves] or [Numbers()]
        # A number that one assertion asks many digits of may be asked for by others as well.
        digits = digit_limit(abouts, self.options.max_number_digits)
        if len(leaves) == 1 and merged == (leaves[0],) and verdicts == _ALL_MUST:
            return number_dfa(abouts[0], self.options.spelling, digits), [MUST]
        judge = _Judge(leaves, merged, verdicts)
        dfas = [number_verdicts(about, self.options.spelling, digits) for about in abouts]

        def decide(labels: tuple[int, ...]) -> int:
            return DEAD if DEAD in labels else judge([label == HOLDS for label in labels])

        return combine(dfas, decide), judge.found

    def number_verdicts(self, asks: tuple[Formula, ...]) -> list[int]:
        """All verdicts that numbers can have."""
        return self._numbers(asks, None)[1]

    def is_narrowed(self, ask: Formula) -> bool:
        """Whether numbers are left out that fit, beyond what digits and spellings leave out."""
        merged = _merged_numbers(ask, self.formulas)
        return any(narrowing(_about_numbers(leaf)) for leaf in leaves_of((merged,)))

    def number_fits(self, ask: Formula, value: Decimal) -> bool:
        """Whether one number fits a formula over assertions about numbers."""
        return evaluate(ask, lambda leaf: holds(_about_numbers(leaf), value))

    # --- the shortest ---------------------------------------------------------------------

    def least_length(self, ask: Formula) -> int:
        """The code points that every string has that fits, as far as a bound says so."""
        return _without_length(ask, self.formulas)[1][0]

    def shortest_string(self, ask: Formula) -> bytes | None:
        """The shortest JSON string that fits, ``None`` where there is none."""
        if ask is FALSE:
            return None
        listed = self.listed_strings(ask)
        if listed is not None:
            texts = [json_key(text) for text in listed]
            texts = [text for text in texts if self.missing.isdisjoint(text)]
            return min(texts, key=lambda text: (len(text), text), default=None)
        guess = self._guessed_string(ask)
        if guess is not None:
            return guess
        block = self.string_block((ask,), frozenset((MUST,)))
        if block is None:
            return None
        text = block.shortest()
        low = block.bounds[0] if block.bounds is not None else 0
        return text if low == 0 else b'"' + self.filler * low + b'"'

    @property
    def filler(self) -> bytes:
        """A byte that is a character of its own."""
        return bytes((next(b for b in b"a0 " + bytes(range(0x23, 0x5B)) if b not in self.missing),))

    def _guessed_string(self, ask: Formula) -> bytes | None:
        """What needs no automaton."""
        if ord('"') in self.missing:
            return None
        if ask is TRUE:
            return b'""'
        if isinstance(ask, Leaf) and isinstance(ask.assertion, Length):
            low, high = ask.assertion.low, ask.assertion.high
            return b'"' + self.filler * low + b'"' if high is None or low <= high else None
        others, banned = _without_banned(ask, self.formulas)
        if banned:
            return self._guessed_other(ask, others, banned)
        (pattern,), (low, high) = _without_length(ask, self.formulas)
        if isinstance(pattern, Leaf) and isinstance(pattern.assertion, Matches):
            match = short_match(pattern.assertion.pattern)
            if (
                match is not None
                and low <= len(match)
                and (high is None or len(match) <= high)
                and not self._is_too_long(match, ask)
            ):
                text = json_key(match)
                return text if self.missing.isdisjoint(text) else None
        return None

    def _guessed_other(
        self, ask: Formula, others: Formula, banned: Collection[str]
    ) -> bytes | None:
        """A string beside those that are forbidden, a few characters off the shortest."""
        text = self._guessed_string(others)
        if text is None:
            return None
        plain = json.loads(text)
        letters = [chr(byte) for byte in b"abcdefghijklmnopqrstuvwxyz" if byte not in self.missing]
        endings = itertools.chain.from_iterable(
            itertools.product(letters, repeat=size) for size in range(len(letters))
        )
        for ending in itertools.islice(endings, len(banned) + _MOST_ENDINGS):
            other = plain + "".join(ending)
            if self._is_too_long(other, ask):
                return None
            if other not in banned and self.string_fits(others, other):
                return json_key(other)
        return None

    def shortest_number(self, ask: Formula) -> bytes | None:
        """The shortest JSON number that fits, ``None`` where there is none."""
        if ask is FALSE:
            return None
        others, banned = _without_banned_numbers(ask, self.formulas)
        if banned:
            for number in range(len(banned) + 1):
                text = b"%d" % number
                if number not in banned and self.missing.isdisjoint(text):
                    if self.number_fits(others, Decimal(number)):
                        return text
                    break
        guesses = (Decimal(0), *_landmarks(ask))
        for text in sorted({exact_text(g).encode() for g in guesses}, key=lambda t: (len(t), t)):
            value = Decimal(text.decode())
            if self.missing.isdisjoint(text) and self.number_fits(ask, value):
                return text
        block = self.number_block((ask,), frozenset((MUST,)))
        return None if block is None else block.shortest()


_MOST_ENDINGS: Final = 700
"""Endings tried beside as many as there are strings forbidden."""
_MOST_LISTED: Final = 2_000
"""Listed strings that are laid over the rows of others one by one."""


class _Judge:
    """Turns what is true of assertions into verdicts on formulas, numbered as they come up."""

    def __init__(
        self, leaves: list[Leaf], asks: tuple[Formula, ...], verdicts: frozenset[int] | None
    ) -> None:
        self.leaves = leaves
        self.asks = asks
        self.verdicts = verdicts
        self.found: list[int] = []
        self._numbers: dict[int, int] = {}

    def __call__(self, fits: list[bool]) -> int:
        spend(len(self.leaves) // 4 + len(self.asks))
        truth = dict(zip(self.leaves, fits, strict=False))
        verdict = sum(evaluate(ask, truth.__getitem__) << i for i, ask in enumerate(self.asks))
        if self.verdicts is not None and verdict not in self.verdicts:
            return DEAD
        number = self._numbers.setdefault(verdict, len(self.found))
        if number == len(self.found):
            self.found.append(verdict)
        return number


def pattern_dfa(pattern: Regular) -> Dfa:
    """The automaton of the strings that a pattern is found in, kept for other schemas."""
    with _lock:
        dfa = _dfas.get(pattern)
    if dfa is None:
        dfa = dfa_from_regular(pattern, search=True)
        with _lock:
            _dfas[pattern] = dfa
    return dfa


def _listed_dfa(leaves: list[Leaf]) -> tuple[Dfa, list[list[bool]]]:
    """The automaton of all strings that some assertions list.

    By its labels which of the assertions hold; last, by DEAD, of strings that none of them lists.
    """
    lists: dict[str, list[int]] = {}
    for number, leaf in enumerate(leaves):
        for text in _choices(leaf) or ():
            lists.setdefault(text, []).append(number)
    labels: dict[tuple[int, ...], int] = {}
    dfa = choices_dfa(
        {text: labels.setdefault(tuple(held), len(labels)) for text, held in lists.items()}
    )
    holding = [[number in held for number in range(len(leaves))] for held in (*labels, ())]
    return dfa, holding


def choices_dfa(values: Mapping[str, int]) -> Dfa:
    """The automaton of a list of strings, each with its label: their trie."""
    children: list[dict[str, int]] = [{}]
    ends: dict[int, int] = {}
    for text, named in values.items():
        node = 0
        for character in text:
            node = children[node].setdefault(character, len(children))
            if node == len(children):
                children.append({})
        ends[node] = named
    letters = sorted({letter for edges in children for letter in edges})
    number = {letter: i for i, letter in enumerate(letters)}
    table = np.full((len(children), len(letters)), DEAD, dtype=np.int32)
    spend(len(children) * 4)
    for node, edges in enumerate(children):
        for letter, child in edges.items():
            table[node, number[letter]] = child
    label = np.full(len(children), DEAD, dtype=np.int32)
    label[list(ends)] = list(ends.values())
    return Dfa(tuple(map(CodePoints.single, letters)), table, label)


def _choices(formula: Formula) -> tuple[str, ...] | None:
    """The strings that an assertion lists."""
    if isinstance(formula, Leaf) and isinstance(formula.assertion, StringChoices):
        return formula.assertion.values
    return None


def _is_endless(table: NDArray[np.int32]) -> bool:
    return len(table) > 0 and bool(endless_states(table)[0])


def _about_numbers(leaf: Leaf) -> Numbers | NumberChoices:
    assert isinstance(leaf.assertion, Numbers | NumberChoices), leaf
    return leaf.assertion


def _without_length(
    ask: Formula, formulas: Formulas
) -> tuple[tuple[Formula], tuple[int, int | None]]:
    """A formula without the bounds on the length that it sets in any case, and those bounds."""
    low, high = 0, None
    others: list[Formula] = []
    for part in ask.parts if isinstance(ask, AllOf) else (ask,):
        if isinstance(part, Leaf) and isinstance(part.assertion, Length):
            low = max(low, part.assertion.low)
            if part.assertion.high is not None:
                high = part.assertion.high if high is None else min(high, part.assertion.high)
        else:
            others.append(part)
    return (formulas.all_of(others),), (low, high)


def _merged_numbers(ask: Formula, formulas: Formulas) -> Formula:
    """The ranges that hold in any case as one, where they join simply."""
    if not isinstance(ask, AllOf):
        return ask
    merged = Numbers()
    others: list[Formula] = []
    for part in ask.parts:
        about = _range(part)
        if about is not None and (merged.multiple_of is None or about.multiple_of is None):
            low = max(
                (b for b in (merged.low, about.low) if b is not None),
                key=lambda b: (b.value, b.strict),
                default=None,
            )
            high = min(
                (b for b in (merged.high, about.high) if b is not None),
                key=lambda b: (b.value, not b.strict),
                default=None,
            )
            multiple = about.multiple_of if merged.multiple_of is None else merged.multiple_of
            merged = Numbers(
                integer=merged.integer or about.integer,
                literal=merged.literal or about.literal,
                low=low,
                high=high,
                multiple_of=multiple,
            )
        else:
            others.append(part)
    return formulas.all_of([formulas.leaf(merged), *others])


def _range(part: Formula) -> Numbers | None:
    """A range that a part of a formula says; not above 5 is above 5 turned round."""
    item = part.item if isinstance(part, Not) else part
    about = item.assertion if isinstance(item, Leaf) else None
    if not isinstance(about, Numbers) or item is part:
        return about if isinstance(about, Numbers) else None
    low, high = about.low, about.high
    if about == Numbers(low=low):
        return None if low is None else Numbers(high=Bound(low.value, not low.strict))
    if about == Numbers(high=high):
        return None if high is None else Numbers(low=Bound(high.value, not high.strict))
    return None


def _landmarks(ask: Formula) -> Iterator[Decimal]:
    """Numbers that a formula speaks of, and their neighbours."""
    for leaf in leaves_of((ask,)):
        about = leaf.assertion
        if isinstance(about, NumberChoices):
            yield from about.values
        elif isinstance(about, Numbers):
            for bound in (about.low, about.high):
                if bound is not None and abs(bound.value) < 10**15:
                    whole = bound.value.to_integral_value()
                    yield from (bound.value, whole - 1, whole, whole + 1)


def _without_banned(ask: Formula, formulas: Formulas) -> tuple[Formula, set[str]]:
    """A formula without the strings that it lists as not fitting, and those strings."""
    banned: set[str] = set()
    others: list[Formula] = []
    for part in ask.parts if isinstance(ask, AllOf) else (ask,):
        values = _choices(part.item) if isinstance(part, Not) else None
        if values is None:
            others.append(part)
        else:
            banned.update(values)
    return formulas.all_of(others), banned


def _without_banned_numbers(ask: Formula, formulas: Formulas) -> tuple[Formula, set[Decimal]]:
    """The same for numbers."""
    banned: set[Decimal] = set()
    others: list[Formula] = []
    for part in ask.parts if isinstance(ask, AllOf) else (ask,):
        item = part.item if isinstance(part, Not) else None
        if isinstance(item, Leaf) and isinstance(item.assertion, NumberChoices):
            banned.update(item.assertion.values)
        else:
            others.append(part)
    return formulas.all_of(others), banned


def _code_points_left(content: ByteDfa) -> NDArray[np.int32]:
    """For each state the least number of code points to an accepting one, a begun one included."""
    far = np.iinfo(np.int32).max // 2
    need = np.where(content.label != DEAD, 0, far).astype(np.int32)
    while fewer_code_points(content.next, content.between, need):
        spend(1 + content.next.size // 200)
    return need


def _quoted(
    content: ByteDfa,
    need: NDArray[np.int32],
    bounds: tuple[int, int | None],
    key: Hashable,
    verdicts: tuple[int, ...],
) -> Block:
    """Put quotes around; inside, a raw quote never occurs but behind a backslash."""
    count, width = content.next.shape
    quote, start, end = ord('"'), 0, count + 1
    byte_class = content.byte_class.copy()
    byte_class[quote] = width  # a class of its own
    table = np.full((count + 2, width + 1), DEAD, dtype=np.int32)
    inner = table[1:end]
    inner[:, :width] = np.where(content.next == DEAD, DEAD, content.next + 1)
    # Every way to accept goes through one closing state a label.
    escaped = inner[:, content.byte_class[quote]]
    labels = np.unique(content.label[content.label != DEAD])
    table = np.concatenate([table, np.full((len(labels) - 1, width + 1), DEAD, dtype=np.int32)])
    inner = table[1:end]
    closing = end + np.searchsorted(labels, content.label)
    inner[:, width] = np.where(content.label != DEAD, closing, escaped)
    table[start, width] = 1
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[end:] = labels
    beat = np.full(len(table), INSIDE, dtype=np.int8)
    beat[1 : 1 + content.between] = TICK
    beat[start] = 0
    beat[end:] = CLOSE_STRING
    needed = np.zeros(len(table), dtype=np.int32)
    needed[1:end] = need
    dfa = ByteDfa(byte_class, table, label)
    if bounds == (0, None):
        return block_of(dfa, key=key, verdicts=verdicts)
    # The opening quote begins a count; the state behind it is entered as the first character ends
    # too where the content loops there, so it gets a twin that only the quote leads to.
    twin = len(table)
    table = np.concatenate([table, table[1:2]])
    table[start, width] = twin
    dfa = ByteDfa(byte_class, table, np.append(label, label[1]))
    beat = np.append(beat, np.int8(START))
    needed = np.append(needed, needed[1])
    block = block_of(dfa, key=key, beat=beat, need=needed, bounds=bounds, verdicts=verdicts)
    block.left[_starts(block)] += bounds[0]  # the shortest way through is not long enough
    return block


def _starts(block: Block) -> list[int]:
    """The states of a counting block from which nothing was counted yet."""
    return [0, len(block) - 1]
