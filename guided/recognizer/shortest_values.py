"""The shortest JSON text of every shape, and with it which shapes hold a value at all.

Shapes refer to one another in circles, so lengths start as impossible and are lowered until none
changes: a shape is looked at again whenever one that it needs has become shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from guided.automata.byte_dfa import ByteDfa
from guided.automata.fuel import spend
from guided.automata.shortest import STOP, shortest_ways
from guided.errors import LimitExceededError
from guided.grammar.json_grammar import (
    ArrayShape,
    JsonGrammar,
    NumberShape,
    ObjectShape,
    StringShape,
    ValueShape,
)
from guided.recognizer.scalars import json_key, number_block, string_block

__all__ = [
    "IMPOSSIBLE",
    "MAX_SHORTEST_BYTES",
    "NEW_KEY_BYTES",
    "Part",
    "ShortestValues",
    "item_shape",
]

MAX_SHORTEST_BYTES = 100_000
"""Shapes whose shortest text is longer count as empty."""
IMPOSSIBLE = MAX_SHORTEST_BYTES + 1
NEW_KEY_BYTES = 12
"""Upper bound on a free key that is not taken yet, quotes included: a number of ten digits."""

_PLAIN_NUMBERS = frozenset({NumberShape(integer=True), NumberShape(integer=False)})
_PLAIN_STRING = StringShape()
"""Where one of these is among the alternatives, no automaton is needed to find the shortest."""

Part = bytes | int
"""A piece of a text: bytes, or the number of a shape to be spelled out."""


class ShortestValues:
    """Lengths in bytes by shape, IMPOSSIBLE for shapes without a value, and the texts."""

    def __init__(self, grammar: JsonGrammar, missing: frozenset[int]) -> None:
        self.grammar = grammar
        self.missing = missing
        self.is_cut_short = False
        """Whether a shape counts as empty only because its texts are too long."""
        self._scalars = [self._scalar(number) for number in range(len(grammar.shapes))]
        self.length = [
            IMPOSSIBLE if text is None else self._bounded_length(len(text))
            for text in self._scalars
        ]
        users: list[set[int]] = [set() for _ in grammar.shapes]
        for number, shape in enumerate(grammar.shapes):
            for needed in _needed(shape):
                users[needed].add(number)
        queue = list(range(len(grammar.shapes)))
        while queue:
            number = queue.pop()
            shape = grammar.shapes[number]
            shortest = min(self.length[number], self._object(shape), self._array(shape))
            if shortest < self.length[number]:
                self.length[number] = shortest
                queue.extend(users[number])

    def spellable(self, name: str) -> bool:
        """Whether the vocabulary has all bytes of a member's name."""
        return not set(json_key(name)) & self.missing

    def object_length(self, number: int) -> int | None:
        """Bytes of the shortest object of the shape, ``None`` where it has none."""
        length = self._object(self.grammar.shapes[number])
        return length if length < IMPOSSIBLE else None

    def array_length(self, number: int) -> int | None:
        """Bytes of the shortest array of the shape, ``None`` where it has none."""
        length = self._array(self.grammar.shapes[number])
        return length if length < IMPOSSIBLE else None

    def possible(self, shape: int | None) -> bool:
        """Whether the shape holds a value."""
        return shape is not None and self.length[shape] < IMPOSSIBLE

    def text(self, *parts: Part) -> bytes:
        """The parts in order, shapes spelled as shortly as they can be."""
        spelled: list[bytes] = []
        stack: list[Part] = list(reversed(parts))
        while stack:
            part = stack.pop()
            if isinstance(part, bytes):
                spelled.append(part)
            else:
                stack.extend(reversed(list(self._parts(part))))
        return b"".join(spelled)

    def members(self, shape: ObjectShape, index: int, extras: int) -> Iterator[Part]:
        """What has to follow behind property ``index`` of an open object, less the closing brace.

        Free members that are still owed come out as the empty key ``""``: who spells them has to
        choose names that are not taken.
        """
        first = index < 0 and extras == 0
        for named in shape.properties[index + 1 :]:
            if named.required:
                yield (b"" if first else b",") + json_key(named.name) + b":"
                yield named.value
                first = False
        for _ in range(extras, shape.min_extra):
            assert shape.extra is not None
            yield (b"" if first else b",") + b'"":'
            yield shape.extra
            first = False

    def items(self, shape: ArrayShape, count: int) -> Iterator[Part]:
        """What has to follow behind ``count`` completed items, less the closing bracket."""
        for position in range(count, shape.min_items):
            if position:
                yield b","
            item = item_shape(shape, position)
            assert item is not None
            yield item

    def parts_length(self, parts: Iterator[Part]) -> int:
        """Bytes of the parts at most; IMPOSSIBLE where a shape among them has no value."""
        total = 0
        for part in parts:
            spend(1)
            if isinstance(part, int):
                if self.length[part] == IMPOSSIBLE:
                    return IMPOSSIBLE
                total += self.length[part]
            else:
                total += len(part) + (NEW_KEY_BYTES - 2 if part.endswith(b'"":') else 0)
            if total > MAX_SHORTEST_BYTES:
                break
        return self._bounded_length(total)

    def _bounded_length(self, length: int) -> int:
        """The length, or IMPOSSIBLE past the bound, which is then remembered."""
        if length > MAX_SHORTEST_BYTES:
            self.is_cut_short = True
            return IMPOSSIBLE
        return length

    def _scalar(self, number: int) -> bytes | None:
        """The shortest scalar that the shape allows."""
        shape = self.grammar.shapes[number]
        texts = [b"null"] if shape.null else []
        texts += [b"true" if value else b"false" for value in shape.booleans]
        if _PLAIN_NUMBERS.intersection(shape.numbers):
            texts.append(b"0")
        elif _PLAIN_STRING in shape.strings:
            texts.append(b'""')
        else:
            texts += self._shortest_of_blocks(number)
        return min(texts, key=lambda text: (len(text), text), default=None)

    def _shortest_of_blocks(self, number: int) -> list[bytes]:
        shape = self.grammar.shapes[number]
        texts = []
        try:
            if shape.numbers:
                texts += _shortest_text(number_block(shape.numbers, self.missing))
            if shape.strings:
                texts += _shortest_text(string_block(shape.strings, self.missing))
        except LimitExceededError as error:
            raise LimitExceededError(
                error.message,
                limit=error.limit,
                field="constraint",
                pointer=self.grammar.pointers[number],
                hint=error.hint,
            ) from error
        return texts

    def _object(self, shape: ValueShape) -> int:
        if shape.object is None:
            return IMPOSSIBLE
        for named in shape.object.properties:
            if named.required and not self.spellable(named.name):
                return IMPOSSIBLE
        inside = self.parts_length(self.members(shape.object, -1, 0))
        return inside if inside == IMPOSSIBLE else self._bounded_length(2 + inside)

    def _array(self, shape: ValueShape) -> int:
        array = shape.array
        if array is None or not _has_items(array):
            return IMPOSSIBLE
        inside = self.parts_length(self.items(array, 0))
        return inside if inside == IMPOSSIBLE else self._bounded_length(2 + inside)

    def _parts(self, number: int) -> Iterator[Part]:
        shape, length = self.grammar.shapes[number], self.length[number]
        assert length < IMPOSSIBLE, number
        scalar = self._scalars[number]
        if scalar is not None and len(scalar) == length:
            yield scalar
        elif shape.array is not None and self._array(shape) == length:
            yield b"["
            yield from self.items(shape.array, 0)
            yield b"]"
        else:
            assert shape.object is not None, number
            yield b"{"
            taken = 0
            for part in self.members(shape.object, -1, 0):
                if isinstance(part, bytes) and part.endswith(b'"":'):
                    taken += 1
                    part = part[:-3] + b'"%d":' % taken
                yield part
            yield b"}"


def item_shape(shape: ArrayShape, position: int) -> int | None:
    """The shape of the item at ``position``, ``None`` where no item may stand."""
    if shape.max_items is not None and position >= shape.max_items:
        return None
    return shape.prefix[position] if position < len(shape.prefix) else shape.rest


def _has_items(shape: ArrayShape) -> bool:
    return shape.min_items <= len(shape.prefix) or shape.rest is not None


def _needed(shape: ValueShape) -> Iterator[int]:
    if shape.object is not None:
        yield from (named.value for named in shape.object.properties if named.required)
        if shape.object.extra is not None and shape.object.min_extra:
            yield shape.object.extra
    if shape.array is not None:
        yield from shape.array.prefix
        if shape.array.rest is not None:
            yield shape.array.rest


def _shortest_text(block: ByteDfa) -> list[bytes]:
    if not len(block):
        return []
    _, way = shortest_ways(block, {0: 0})
    text, state = bytearray(), 0
    while way[state] != STOP:
        text.append(int(way[state]))
        state = block.step(state, int(way[state]))
    return [bytes(text)]
