"""Blocks of rows for the places of a JSON document: values, members of objects, items of arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from guided.automata.byte_dfa import ByteDfa, byte_dfa_from_literals, byte_dfa_from_rows
from guided.grammar.json_grammar import JsonGrammar, NumberShape, ObjectShape, StringShape
from guided.recognizer.scalars import json_key, number_block, string_block, string_content
from guided.recognizer.shortest_values import NEW_KEY_BYTES, ShortestValues, item_shape
from guided.recognizer.table import DEAD, IN_KEY, KEY_CLOSED, PLAIN, STOP, TransitionTable

__all__ = ["CLOSE", "DONE", "END_ROW", "FREE_KEY", "ITEM", "JsonRows"]

DONE, CLOSE, ITEM, FREE_KEY = range(4)
"""A value is complete, a container closes, an item follows, a free key is written."""
_FIRST_OPENER = 4
END_ROW = 0
"""Behind the document: nothing may follow."""


class JsonRows:
    """Lays blocks down when a text first gets to them.

    Labels: the four above, then one for the opening brace and one for the opening bracket of each
    shape, then one for each position among named properties.
    """

    def __init__(self, grammar: JsonGrammar, missing: frozenset[int], max_cells: int) -> None:
        self.grammar = grammar
        self.missing = missing
        self.shortest = ShortestValues(grammar, missing)
        self.table = TransitionTable(max_cells)
        self._first_key = _FIRST_OPENER + 2 * len(grammar.shapes)
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
        return _FIRST_OPENER + 2 * shape

    def array_opener(self, shape: int) -> int:
        return _FIRST_OPENER + 2 * shape + 1

    def key(self, index: int) -> int:
        return self._first_key + index

    def key_index(self, label: int) -> int | None:
        """Which named property the label stands for, if it stands for one."""
        return label - self._first_key if label >= self._first_key else None

    def opened(self, label: int) -> tuple[int, bool]:
        """The shape that an opener opens, and whether as an object."""
        assert _FIRST_OPENER <= label < self._first_key, label
        shape, kind = divmod(label - _FIRST_OPENER, 2)
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
                rows = _FreeMembers(dict(taken) | dict(named), self.missing)
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


class _FreeMembers:
    """Members whose keys are free, but for the named ones.

    The trie of the named keys lies over the automaton of any string: a state of the trie is a copy
    of the string's state with some bytes leading deeper into the trie. A key that ends in a node of
    the trie is named; if its label is DEAD it must not be written here.
    """

    def __init__(self, named: Mapping[bytes, int], missing: frozenset[int]) -> None:
        self.content = string_content(missing)
        self.rows: list[NDArray[np.int32]] = []
        self.labels: list[int] = []
        self.roles: list[int] = []
        free = self._content_rows()
        exits: dict[int, int] = {}
        self.key_start = self._trie(named, free, exits)

    def _add(
        self, row: NDArray[np.int32] | None = None, label: int = DEAD, role: int = PLAIN
    ) -> int:
        self.rows.append(np.full(256, DEAD, dtype=np.int32) if row is None else row)
        self.labels.append(label)
        self.roles.append(role)
        return len(self.rows) - 1

    def _closing(self, label: int, role: int) -> int:
        """The state behind the closing quote: a colon, then ``label``."""
        row = np.full(256, DEAD, dtype=np.int32)
        row[ord(":")] = self._add(label=label)
        return self._add(row, role=role)

    def _content_rows(self) -> list[NDArray[np.int32]]:
        """The states of the content, closed by a quote where the content may end."""
        self.start = self._add()  # filled in by block()
        closed = self._closing(FREE_KEY, KEY_CLOSED)
        base = len(self.rows)
        inner = self.content.next[:, self.content.byte_class]
        inner = np.where(inner == DEAD, DEAD, inner + base).astype(np.int32)
        for state, row in enumerate(inner):
            if self.content.label[state] != DEAD:
                row[ord('"')] = closed
            self._add(row, role=IN_KEY)
        self.content_base = base
        return [self.rows[base + state] for state in range(len(self.content))]

    def _trie(
        self, named: Mapping[bytes, int], free: list[NDArray[np.int32]], exits: dict[int, int]
    ) -> int:
        root = self._add(free[0].copy(), role=IN_KEY)
        nodes: dict[bytes, tuple[int, int]] = {b"": (root, 0)}
        for key, label in named.items():
            text = key[1:-1]
            for end in range(1, len(text) + 1):
                if text[:end] in nodes:
                    continue
                parent, state = nodes[text[: end - 1]]
                state = self.content.step(state, text[end - 1])
                if state == DEAD:
                    break
                node = self._add(free[state].copy(), role=IN_KEY)
                self.rows[parent][text[end - 1]] = node
                nodes[text[:end]] = (node, state)
            else:
                if label != DEAD and label not in exits:
                    exits[label] = self._closing(label, PLAIN)
                node = nodes[text][0]
                self.rows[node][ord('"')] = DEAD if label == DEAD else exits[label]
        return root

    def block(
        self, literals: list[tuple[bytes, int]], *, comma: bool
    ) -> tuple[ByteDfa, NDArray[np.int8]]:
        """The automaton, with a closing brace where ``literals`` holds one, and its roles."""
        quote = self._add()
        self.rows[quote][ord('"')] = self.key_start
        if comma:
            self.rows[self.start][ord(",")] = quote
        else:
            self.rows[self.start][ord('"')] = self.key_start
        for text, label in literals:
            self.rows[self.start][text[0]] = self._add(label=label)
        block = byte_dfa_from_rows(np.stack(self.rows), np.array(self.labels, dtype=np.int32))
        assert len(block) == len(self.rows), "a state of a free key leads nowhere"
        return block, np.array(self.roles, dtype=np.int8)
