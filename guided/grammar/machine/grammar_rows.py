"""The rows of a grammar's recogniser: sets of states of its network, laid down when needed.

A row is a set of *items*, each a state and the *slot* of the stack that holds its continuation
(what follows the state's rule). Two kinds of rows are laid down in bulk::

    block of a rule, for one slot                    sets of states, of one or more slots
    +-------------------+------------------------+   +-------------------+------------------------+
    | a row for each    | a row for each state   |   | a row for each    | a row for each set     |
    | state of the rule | and byte that are AmbiguousByte |   | set               | and byte that are AmbiguousByte |
    +-------------------+------------------------+   +-------------------+------------------------+

A row that may leave its rules has an *exit action*, which the table knows by a number, the row's
label. Python computes once for each stack what the action does to it::

    Return   the rules of some slots end here; any byte that the row does not read is read there
    Enter    calls begin here, or states came together that are not a row yet
    AmbiguousByte     a byte was read that may belong to the row as well as to what follows a rule that ends
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.grammar.machine.state_sets import FoundSets, Item, Items, StateSets
from guided.grammar.network.first_and_follow import follow_sets
from guided.grammar.network.network import Network
from guided.machine.block import Block, block_of
from guided.machine.block_kernels import rule_rows
from guided.machine.stack_transitions import FIRST_UNSURE
from guided.machine.table import TransitionTable
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["AmbiguousByte", "Enter", "GrammarRows", "Item", "Items", "Return"]


class Return(NamedTuple):
    """The rules of these slots end here."""

    slots: tuple[int, ...]


class Enter(NamedTuple):
    """These items, with all calls that begin in them, have to become a row."""

    items: Items


class AmbiguousByte(NamedTuple):
    """The byte is read by the items, and by what may follow those of them that may end.

    The same holds for all bytes of its class.
    """

    items: Items
    byte: int


class _RuleBlock(NamedTuple):
    """A rule as a block of rows, whatever slot its continuation is in."""

    begin: int
    """The first of its states; their rows come first, in the same order."""
    size: int
    """The number of its states."""
    block: Block
    exits: list[list[int]]
    """By exit action of the block a state and a byte, DEAD for none.

    The first has neither: the end of the rule (Return). A state without a byte: calls begin there
    (Enter). With both: the byte may also belong to what follows the rule (AmbiguousByte). The last ones have
    a row each, in the order of their rows after those of the states.
    """


class _Laid(NamedTuple):
    """A rule's rows, from ``first`` on, with what follows it in a slot of the stack.

    The labels of its exit actions begin with ``label``, in the order of ``rule.exits`` after the
    first; that of its end is elsewhere, as all rules in the slot share it.
    """

    first: int
    label: int
    slot: int
    rule: _RuleBlock

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.rule.block)

    def items(self, row: int) -> Items:
        """Return the item of a row."""
        begin, size, block, exits = self.rule
        at = row - self.first
        assert 0 <= at < len(block), row
        # Rows after those of the states are AmbiguousByte, and the last of ``exits`` are theirs: counted
        # from the end, both have the same numbers.
        state = begin + at if at < size else exits[at - len(block)][0]
        return (Item(state, self.slot),)

    def meaning(self, label: int) -> Enter | AmbiguousByte:
        """Return the meaning of one of its labels, except that of its end."""
        state, byte = self.rule.exits[1 + label - self.label]
        items = (Item(state, self.slot),)
        return Enter(items) if byte == DEAD else AmbiguousByte(items, byte)


class _LaidSets(NamedTuple):
    """Rows of sets, from ``first`` on, and after them one for each byte that is AmbiguousByte.

    The labels of the latter begin with ``label``.
    """

    first: int
    label: int
    sets: StateSets
    numbers: list[int]
    """The numbers of the sets, by row."""
    sides: NDArray[np.int32]
    """Sets and bytes that are AmbiguousByte, int32 ``[sides, 2]``."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.numbers) + len(self.sides)

    def items(self, row: int) -> Items:
        """Return the items of a row."""
        at = row - self.first
        assert 0 <= at < self.size, row
        known = len(self.numbers)
        return self.sets.items(self.numbers[at] if at < known else int(self.sides[at - known, 0]))

    def meaning(self, label: int) -> AmbiguousByte:
        """Return the meaning of one of its labels."""
        number, byte = self.sides[label - self.label].tolist()
        return AmbiguousByte(self.sets.items(number), byte)


def _first_row(laid: _Laid | _LaidSets) -> int:
    return laid.first


def _first_label(laid: _Laid | _LaidSets) -> int:
    return laid.label


class GrammarRows:
    """Lays rows down in a table, each once; neither rows nor labels are ever dropped.

    All methods that may lay rows down raise LimitExceededError if the table is full or the work
    for the constraint is used up.
    """

    def __init__(self, network: Network, table: TransitionTable) -> None:
        self.network = network
        self.table = table
        self.follow = follow_sets(network)
        self.calling: NDArray[np.bool_] = np.array(
            [bool(edges) for edges in network.calls], dtype=np.bool_
        )
        """Whether calls begin in each state, bool ``[states]``."""
        self.sets = StateSets(network, self.calling, self.follow)
        self._accepting: list[bool] = network.accepting.tolist()
        self._items: dict[int, Items] = {}
        """By row, for rows that were looked up and rows that were laid down alone."""
        self._laid: list[_Laid | _LaidSets] = []
        """What was laid down together: both its rows and its labels ascend."""
        self.may_end: set[int] = set()
        """Rows at which the whole text may end."""
        self._meanings: list[Return | Enter | AmbiguousByte | None] = []
        """By label less FIRST_UNSURE; ``None`` for one of rows laid down together, until it is
        looked up. Its length gives the next label: each label adds an entry, and none is removed.
        """
        self._labels: dict[Return | Enter | AmbiguousByte, int] = {}
        """The labels that ``_label`` returned; others of rows laid down together may mean the same.
        """
        self._waiting: dict[int, int] = {}
        """By label a row that has nothing but its exit action."""
        self._rule_blocks: dict[int, _RuleBlock] = {}
        self._blocks: dict[tuple[int, int], int] = {}
        """By rule and slot the first row of a block."""
        self._sets: dict[tuple[Items, bool], int] = {}
        """By items, and whether the text may end there, the row of a set."""
        # The row after the whole text: no items, no byte, no exit action.
        self.end = self._sets[(), True] = table.add_row({})
        self._items[self.end] = ()
        self.may_end.add(self.end)

    def items(self, row: int) -> Items:
        """Return the items of a row, which must have been laid down here; kept once looked up.

        Those of a row that is AmbiguousByte are the items before its byte.
        """
        found = self._items.get(row)
        if found is None:
            laid = self._laid[bisect_right(self._laid, row, key=_first_row) - 1]
            found = self._items[row] = laid.items(row)
        return found

    def check(self) -> None:
        """Raise AssertionError unless all its rows are rows of the table, each of them once."""
        end = 0
        for laid in self._laid:
            assert laid.first >= end, laid
            end = laid.first + laid.size
            assert all(
                self._items.get(row, laid.items(row)) == laid.items(row)
                for row in range(laid.first, end)
            )
        assert end <= self.table.num_rows
        assert all(0 <= row < self.table.num_rows for row in self._items)

    def meaning(self, label: int) -> Return | Enter | AmbiguousByte:
        """Return the meaning of a label, always the same; kept once it is computed."""
        found = self._meanings[label - FIRST_UNSURE]
        if found is None:
            # Only rows laid down together have labels without a meaning yet: the label belongs to
            # the last of these whose labels begin at or before it.
            laid = self._laid[bisect_right(self._laid, label, key=_first_label) - 1]
            found = self._meanings[label - FIRST_UNSURE] = laid.meaning(label)
        return found

    def row(self, items: Items, *, may_end: bool = False) -> int:
        """Return the row of a set of items, laid down when it is first needed.

        All calls must have begun in them. They are sorted by state, and slots are numbered in the
        order in which they first come up, so that equal sets are equal tuples. ``may_end`` says
        that the whole text may end here: such a row is never shared with one where it may not.
        """
        if len(items) == 1 and not may_end:
            return self._state(*items[0])
        row = self._sets.get((items, may_end))
        if row is None:
            row = DEAD if may_end else self.sets.row(items)
            if row == DEAD:
                row = self._sets_from(items, may_end)
            self._sets[items, may_end] = row
        return row

    def _label(self, meaning: Return | Enter | AmbiguousByte) -> int:
        """Return the label of a meaning, one for equal meanings. Labels begin at FIRST_UNSURE."""
        label = self._labels.setdefault(meaning, FIRST_UNSURE + len(self._meanings))
        if label == FIRST_UNSURE + len(self._meanings):
            self._meanings.append(meaning)
        return label

    def _waiting_row(self, meaning: Enter | AmbiguousByte) -> int:
        """Return the row that reads no byte and has only the exit action of this meaning."""
        label = self._label(meaning)
        row = self._waiting.get(label)
        if row is None:
            row = self._waiting[label] = self.table.add_row({}, label=label)
            self._items[row] = meaning.items
        return row

    # --- single states --------------------------------------------------------------------

    def _state(self, state: int, slot: int) -> int:
        """Return the row of one state with its continuation in a slot, in the block of its rule."""
        rule = self.network.rule_of(state)
        first = self._blocks.get((rule, slot))
        if first is None:
            first = self._blocks[rule, slot] = self._block(rule, slot)
        return first + state - self.network.starts[rule]

    def _block(self, rule: int, slot: int) -> int:
        """Lay a rule down with its continuation in a slot; returns the row of its first state.

        All exit actions except the end of the rule get separate labels, side by side, without a
        meaning yet: ``meaning`` finds it from ``_laid`` when it is needed.
        """
        block = self._rule_blocks.get(rule)
        if block is None:
            block = self._rule_blocks[rule] = self._rule_block(rule)
        spend(50 + block.size)
        # The label of the end first, as it may be new: the others have to be side by side.
        end, own = self._label(Return((slot,))), len(block.exits) - 1
        label = FIRST_UNSURE + len(self._meanings)
        labels = np.array([end, *range(label, label + own), DEAD], dtype=np.int32)
        first = self.table.add_block(block.block, labels)
        self._meanings += [None] * own
        self._laid.append(_Laid(first, label, slot, block))
        return first

    def _rule_block(self, rule: int) -> _RuleBlock:
        """Return what the blocks of a rule have in common, whatever slot its continuation is in.

        ``_block`` keeps it by rule, so it depends only on the network.
        """
        network = self.network
        begin = network.starts[rule]
        end = network.starts[rule + 1] if rule + 1 < len(network.starts) else len(network)
        size = end - begin
        spend(3 * size)
        byte_class, table, label, exits = rule_rows(
            *(network.moves, network.byte_class, network.own_classes[rule], begin, end),
            *(network.accepting, self.calling, self.follow[rule]),
        )
        # Every state of a network leads to an end, so there is nothing to trim.
        block = block_of(ByteDfa(byte_class, table, label))
        return _RuleBlock(begin, size, block, exits.tolist())

    # --- sets of states -------------------------------------------------------------------

    def _sets_from(self, items: Items, may_end: bool) -> int:
        """Lay a set of states down, and those that bytes lead to inside the same rules.

        Returns the row of the set. All that can be reached is laid down in bulk, as most of it is
        needed soon; ``StateSets`` limits how much that is at once.
        """
        sets = self.sets
        begun = len(sets)
        try:
            return self._add_rows(sets.explored(items, is_lone=may_end), may_end)
        except BaseException:
            # Sets without rows must not be found: the next look-up would take them for rows.
            sets.forget(begun)
            raise

    def _add_rows(self, found: FoundSets, may_end: bool) -> int:
        """Lay down the sets that were found; returns the row of the first of them.

        Sets that cannot be rows themselves (calls begin there, a state came with two slots, or
        there was no room) get a row with nothing but an exit action, Enter. It is in ``sets.rows``
        only while edges that lead to it are laid.
        """
        spend(10 * len(found.rows) + len(found.edges))
        sets = self.sets
        # Blocks of rules first: laying one down makes labels, and those of the sides, from
        # ``label`` on, have to be side by side.
        before: list[int] = []
        for rule, slot in found.pairs:
            begin = self.network.starts[rule]
            before.append(self._state(begin, slot) - begin)
        numbers: list[int] = []
        waiting: list[int] = []
        for number, is_row in enumerate(found.rows, found.begin):
            if is_row:
                numbers.append(number)
            else:
                sets.rows[number] = self._waiting_row(Enter(sets.items(number)))
                waiting.append(number)
        labels = self._labels_of_ends(numbers, found.ends_like)
        label = FIRST_UNSURE + len(self._meanings)
        row = self.table.add_sets(
            found.byte_classes,
            labels,
            found.edges,
            sets.rows,
            numbers,
            before,
            len(found.sides),
            label,
        )
        self._meanings += [None] * len(found.sides)
        self._laid.append(_LaidSets(row, label, sets, numbers, found.sides))
        # A later look-up of one of the others needs its real row, not one that only enters it.
        for number in waiting:
            sets.rows[number] = DEAD
        if may_end:
            # Bytes may lead to the same items where the text may not end: not to this row. And
            # where it may end, no byte has to follow.
            sets.rows[found.begin] = DEAD
            self.may_end.add(row)
            self.table.only[row] = DEAD
        return row

    def _labels_of_ends(self, numbers: list[int], alike: list[int]) -> list[int]:
        """Return by set the label of what ends in it, DEAD for nothing.

        ``alike`` has by set the place in ``numbers`` of a set in which the rules of the same slots
        end, DEAD if no rule ends, so that few sets have to be examined.
        """
        labels = {DEAD: DEAD}
        for place in alike:
            if place not in labels:
                items = self.sets.items(numbers[place])
                slots = {item.slot for item in items if self._accepting[item.state]}
                labels[place] = self._label(Return(tuple(sorted(slots))))
        return [labels[place] for place in alike]
