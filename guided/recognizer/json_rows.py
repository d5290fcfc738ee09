"""Blocks of rows for the places of a JSON document: values, members of objects, items of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa, byte_dfa_from_literals
from guided.grammar.json_grammar import JsonGrammar, NumberShape, ObjectShape, StringShape
from guided.recognizer.free_members import FreeMembers
from guided.recognizer.labels import CLOSE, DONE, FIRST_OPENER, FREE_KEY, ITEM
from guided.recognizer.scalars import json_key, number_block, string_block
from guided.recognizer.shortest_values import NEW_KEY_BYTES, ShortestValues, item_shape
from guided.recognizer.table import DEAD, STOP, TransitionTable

__all__ = ["END_ROW", "JsonRows"]

END_ROW = 0
"""Behind the document: nothing may follow."""


class JsonRows:
    """Lays blocks down when a text first gets to them, and numbers their labels.

    Methods that lay rows down raise LimitExceededError past ``max_cells``.
    """

    def __init__(self, grammar: JsonGrammar, missing: frozenset[int], max_cells: int) -> None:
        self.grammar = grammar
        self.missing = missing
        self.shortest = ShortestValues(grammar, missing)
        self.table = TransitionTable(max_cells)
        self._first_key = FIRST_OPENER + 2 * len(grammar.shapes)
        members = (len(s.object.properties) for s in grammar.shapes if s.object is not None)
        self.num_labels = self._first_key + max(members, default=0)
        self._values: dict[int, int] = {}
        self._scalars: dict[object, int] = {}
        self._members: dict[tuple[int, int, int, bool], int] = {}
        self._items: dict[tuple[int, int], int] = {}
        nowhere = np.full(256, DEAD, dtype=np.int32)
        end_row = self.table.add_row(nowhere, left=0, way=STOP)
        assert end_row == END_ROW, end_row

    # --- labels ---------------------------------------------------------------------------

    def object_opener(self, shape: int) -> int:
        return FIRST_OPENER + 2 * shape

    def array_opener(self, shape: int) -> int:
        return FIRST_OPENER + 2 * shape + 1

    def key(self, index: int) -> int:
        return self._first_key + index

    def key_index(self, label: int) -> int | None:
        """Which named property the label stands for, if it stands for one."""
        return label - self._first_key if label >= self._first_key else None

    def opened(self, label: int) -> tuple[int, bool]:
        """The shape that an opener opens, and whether as an object."""
        assert FIRST_OPENER <= label < self._first_key, label
        shape, kind = divmod(label - FIRST_OPENER, 2)
        return shape, kind == 0

    # --- values ---------------------------------------------------------------------------

    def value(self, number: int) -> int:
        """The row in which a value of the shape begins."""
        if number not in self._values:
            targets, left, way = self._value_targets(number)
            self._values[number] = self.table.add_row(targets, left=left, way=way)
        return self._values[number]

    def _value_targets(self, number: int) -> tuple[NDArray[np.int32], int, int]:
        shape = self.grammar.shapes[number]
        starts: list[int] = []
        if shape.null:
            starts.append(self._literal(b"null"))
        starts += [
            self._literal(b"true" if value else b"false") for value in sorted(shape.booleans)
        ]
        if shape.numbers:
            starts += self._scalar(shape.numbers, number_block(shape.numbers, self.missing))
        if shape.strings:
            starts += self._scalar(shape.strings, string_block(shape.strings, self.missing))
        targets = np.full(256, DEAD, dtype=np.int32)
        for start in starts:
            edges = self.table.row_targets(start)
            targets[edges != DEAD] = edges[edges != DEAD]
        for opener, byte in self._openers(number):
            targets[byte] = opener
        text = self.shortest.text(number)
        return targets, len(text), text[0]

    def _openers(self, number: int) -> list[tuple[int, int]]:
        """Rows behind the brace and the bracket that open the shape, where it holds such values."""
        openers = []
        braces = self.shortest.object_length(number)
        if braces is not None:
            openers.append((self._exit(self.object_opener(number), braces - 1), ord("{")))
        brackets = self.shortest.array_length(number)
        if brackets is not None:
            openers.append((self._exit(self.array_opener(number), brackets - 1), ord("[")))
        return openers

    def _exit(self, label: int, cost: int) -> int:
        """A row that only takes ``label``."""
        key = ("exit", label)
        if key not in self._scalars:
            block = byte_dfa_from_literals([(b"", 0)])
            self._scalars[key] = self.table.add_block(block, lambda _: label, {0: cost}, wide=False)
        return self._scalars[key]

    def _literal(self, text: bytes) -> int:
        if text not in self._scalars:
            block = byte_dfa_from_literals([(text, DONE)])
            self._scalars[text] = self.table.add_block(block, _same, {DONE: 0}, wide=False)
        return self._scalars[text]

    def _scalar(
        self, shapes: tuple[NumberShape, ...] | tuple[StringShape, ...], block: ByteDfa
    ) -> list[int]:
        """The start of a scalar's block, laid down once a recogniser; none for an empty one."""
        if not len(block):
            return []
        if shapes not in self._scalars:
            self._scalars[shapes] = self.table.add_block(block, lambda _: DONE, {0: 0}, wide=False)
        return [self._scalars[shapes]]

    # --- objects --------------------------------------------------------------------------

    def members(self, number: int, index: int, extras: int, *, first: bool) -> int:
        """The row in which the next member or the closing brace is due.

        Named properties come in their order, each at most once, then free members. ``first`` says
        that nothing was written yet, so no comma is due.
        """
        key = (number, index, extras, first)
        if key not in self._members:
            shape = self.grammar.shapes[number].object
            assert shape is not None, number
            named, costs, complete = self._candidates(shape, index)
            literals = [(b"}", CLOSE)] if complete and extras >= shape.min_extra else []
            full = shape.max_extra is not None and extras >= shape.max_extra
            if not complete or full or not self.shortest.possible(shape.extra):
                comma = b"" if first else b","
                literals += [(comma + text + b":", label) for text, label in named]
                block = byte_dfa_from_literals(literals)
                self._members[key] = self.table.add_block(block, _same, costs, wide=True)
            else:
                assert shape.extra is not None
                owed = max(shape.min_extra - extras - 1, 0)
                each = 1 + NEW_KEY_BYTES + 1 + self.shortest.length[shape.extra]
                # The key may have to be longer than the shortest way: that one may be taken.
                longer = NEW_KEY_BYTES - 2
                costs[FREE_KEY] = longer + self.shortest.length[shape.extra] + owed * each + 1
                taken = [(json_key(p.name), DEAD) for p in shape.properties]
                rows = FreeMembers(dict(taken) | dict(named), self.missing)
                block, role = rows.block(literals, comma=not first)
                self._members[key] = self.table.add_block(block, _same, costs, wide=True, role=role)
        return self._members[key]

    def _candidates(
        self, shape: ObjectShape, index: int
    ) -> tuple[list[tuple[bytes, int]], dict[int, int], bool]:
        """The properties that may come next with their labels, the bytes from each label to the
        end of the object, and whether the object may do without any of them.
        """
        named = []
        costs = {CLOSE: 0}
        for position in range(index + 1, len(shape.properties)):
            candidate = shape.properties[position]
            if self.shortest.possible(candidate.value) and self.shortest.spellable(candidate.name):
                rest = self.shortest.parts_length(self.shortest.members(shape, position, 0))
                label = self.key(position)
                named.append((json_key(candidate.name), label))
                costs[label] = self.shortest.length[candidate.value] + rest + 1
            if candidate.required:
                return named, costs, False
        return named, costs, True

    # --- arrays ---------------------------------------------------------------------------

    def first_item(self, number: int) -> int:
        """The row behind an opening bracket.

        Its shortest way is the bracket that closes, where that is allowed; else that of the item.
        """
        key = (number, -1)
        if key not in self._items:
            shape = self.grammar.shapes[number].array
            assert shape is not None, number
            targets = np.full(256, DEAD, dtype=np.int32)
            left, way, wide = 0, STOP, False
            item = item_shape(shape, 0)
            if item is not None and self.shortest.possible(item):
                targets, left, way = self._value_targets(item)
            if shape.min_items == 0:
                targets[ord("]")] = self._exit(CLOSE, 0)
                left, way, wide = 1, ord("]"), True
            self._items[key] = self.table.add_row(targets, left=left, way=way, wide=wide)
        return self._items[key]

    def next_item(self, number: int, count: int) -> int:
        """The row behind ``count`` completed items: a comma, the closing bracket, or both."""
        key = (number, count)
        if key not in self._items:
            shape = self.grammar.shapes[number].array
            assert shape is not None, number
            literals = [(b"]", CLOSE)] if count >= shape.min_items else []
            costs = {CLOSE: 0}
            item = item_shape(shape, count)
            if item is not None and self.shortest.possible(item):
                literals.append((b",", ITEM))
                rest = self.shortest.parts_length(self.shortest.items(shape, count + 1))
                costs[ITEM] = self.shortest.length[item] + rest + 1
            block = byte_dfa_from_literals(literals)
            self._items[key] = self.table.add_block(block, _same, costs, wide=True)
        return self._items[key]


def _same(label: int) -> int:
    return label
