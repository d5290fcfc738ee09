"""The rows of a grammar's recogniser: sets of states of its network, added when needed.

A row is a set of *items*, each a state and the *slot* of the stack that holds its continuation
(what follows the state's rule). Two kinds of rows are added in bulk::

    the block of a rule, for one slot            sets of states, of one or more slots
    +--------------+-------------------------+   +--------------+-------------------------+
    | a row for    | a row for each state    |   | a row for    | a row for each set      |
    | each state   | and its ambiguous bytes |   | each set     | and its ambiguous bytes |
    +--------------+-------------------------+   +--------------+-------------------------+

A byte is *ambiguous* in a row if both the row and what follows a rule that may end there read it.

A row that may leave its rules has an *exit action*, which the table knows by a number, the row's
label. Python computes its effect once for each stack::

    Return          the rules of some slots end here: what follows them reads the next byte
    Enter           rules are called here, or states came together that have no row yet
    AmbiguousByte   an ambiguous byte was read: it is resolved with the stack
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.grammar.machine.set_kernels import Explored
from guided.grammar.machine.state_sets import Item, Items, StateSets
from guided.grammar.network.first_and_follow import follow_sets
from guided.grammar.network.network import Network
from guided.machine.block import Block, make_block
from guided.machine.block_kernels import rule_rows
from guided.machine.stack_transitions import FIRST_CONDITIONAL
from guided.machine.table import TransitionTable
from guided.regular.byte_dfa import ByteDfa
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend

__all__ = ["AmbiguousByte", "Enter", "GrammarRows", "Return"]


class Return(NamedTuple):
    """Exit action: the rules of these slots end here."""

    slots: tuple[int, ...]


class Enter(NamedTuple):
    """Exit action: these items, with the rules that they call, become a row."""

    items: Items


class AmbiguousByte(NamedTuple):
    """Exit action: the byte was read by the items, and by what follows those that may end.

    The byte stands for all of its class.
    """

    items: Items
    byte: int


class _RuleBlock(NamedTuple):
    """A rule as a block of rows, for any slot."""

    first_state: int
    """The first state of the rule; the rows of its states come first, in the same order."""
    num_states: int
    """The number of its states."""
    block: Block
    exits: list[list[int]]
    """By exit action of the block a state and a byte, DEAD for none.

    The first has neither: the end of the rule (Return). Those with a state alone call rules there
    (Enter). Those with a state and an ambiguous byte (AmbiguousByte) come last; in the same order
    their rows come after those of the states.
    """


class _BlockRows(NamedTuple):
    """The rows of a rule's block for one slot, from ``first`` on.

    The labels of its exit actions begin with ``label``, in the order of ``rule.exits`` without the
    first: the label of Return is shared by all rules in the slot.
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
        first_state, num_states, block, exits = self.rule
        at = row - self.first
        assert 0 <= at < len(block), row
        # Rows of ambiguous bytes and their ``exits`` both come last, in the same order.
        state = first_state + at if at < num_states else exits[at - len(block)][0]
        return (Item(state, self.slot),)

    def exit_action(self, label: int) -> Enter | AmbiguousByte:
        """Return the exit action of one of its labels, except Return."""
        state, byte = self.rule.exits[1 + label - self.label]
        items = (Item(state, self.slot),)
        return Enter(items) if byte == DEAD else AmbiguousByte(items, byte)


class _SetRows(NamedTuple):
    """Rows of sets, from ``first`` on, and after them those of their ambiguous bytes.

    The labels of the latter begin with ``label``.
    """

    first: int
    label: int
    sets: StateSets
    numbers: list[int]
    """The number of each set in ``sets``, in the order of the rows."""
    ambiguous: NDArray[np.int32]
    """The ambiguous bytes: set and byte, int32 ``[count, 2]``."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.numbers) + len(self.ambiguous)

    def items(self, row: int) -> Items:
        """Return the items of a row."""
        at = row - self.first
        assert 0 <= at < self.size, row
        num_sets = len(self.numbers)
        number = self.numbers[at] if at < num_sets else int(self.ambiguous[at - num_sets, 0])
        return self.sets.items(number)

    def exit_action(self, label: int) -> AmbiguousByte:
        """Return the exit action of one of its labels."""
        number, byte = self.ambiguous[label - self.label].tolist()
        return AmbiguousByte(self.sets.items(number), byte)


def _first_row(bulk: _BlockRows | _SetRows) -> int:
    return bulk.first


def _first_label(bulk: _BlockRows | _SetRows) -> int:
    return bulk.label


class GrammarRows:
    """Adds rows to a table, each set of items once; rows and labels are never removed.

    Methods that may add rows raise LimitExceededError if the table is full or the work for the
    constraint is used up.
    """

    def __init__(self, network: Network, table: TransitionTable) -> None:
        self.network = network
        self.table = table
        self.follow = follow_sets(network)
        self.has_calls: NDArray[np.bool_] = np.array(
            [bool(edges) for edges in network.calls], dtype=np.bool_
        )
        """Whether each state calls rules, bool ``[states]``."""
        self.sets = StateSets(network, self.has_calls, self.follow)
        self._items: dict[int, Items] = {}
        """By row its items: a cache for rows added in bulk, and all other rows."""
        self._bulk_rows: list[_BlockRows | _SetRows] = []
        """Rows added in bulk, in ascending order of rows and of labels."""
        self.may_end: set[int] = set()
        """Rows at which the whole text may end."""
        self._exit_actions: list[Return | Enter | AmbiguousByte | None] = []
        """By label less FIRST_CONDITIONAL its exit action; ``None`` for those of rows added in bulk
        until they are looked up. The length determines the next label.
        """
        self._labels: dict[Return | Enter | AmbiguousByte, int] = {}
        """Results of ``_intern_label``; rows added in bulk have labels of their own for some of the
        same exit actions."""
        self._exit_only_rows: dict[int, int] = {}
        """Results of ``_exit_only_row``, by label."""
        self._rule_blocks: dict[int, _RuleBlock] = {}
        self._first_row_by_block: dict[tuple[int, int], int] = {}
        """The first row of each block, by rule and slot."""
        self._row_by_set: dict[tuple[Items, bool], int] = {}
        """Results of ``row``, except single states: by items and ``may_end``."""
        # The row after the whole text has no items, moves or exit action.
        self.end = self._row_by_set[(), True] = table.add_row({})
        self._items[self.end] = ()
        self.may_end.add(self.end)

    def items(self, row: int) -> Items:
        """Return the items of a row that was added here; cached.

        Those of the row of an ambiguous byte are the items before the byte.
        """
        found = self._items.get(row)
        if found is None:
            bulk = self._bulk_rows[bisect_right(self._bulk_rows, row, key=_first_row) - 1]
            found = self._items[row] = bulk.items(row)
        return found

    def check(self) -> None:
        """Raise AssertionError unless its rows are distinct rows of the table.

        The items cached for each also have to be its items.
        """
        next_free = 0
        for bulk in self._bulk_rows:
            assert bulk.first >= next_free, bulk
            next_free = bulk.first + bulk.size
            assert all(
                self._items.get(row, bulk.items(row)) == bulk.items(row)
                for row in range(bulk.first, next_free)
            )
        assert next_free <= self.table.num_rows
        assert all(0 <= row < self.table.num_rows for row in self._items)

    def exit_action(self, label: int) -> Return | Enter | AmbiguousByte:
        """Return the exit action of a label; cached."""
        found = self._exit_actions[label - FIRST_CONDITIONAL]
        if found is None:
            # It is one of rows added in bulk: of the last ones whose labels begin at or before it.
            bulk = self._bulk_rows[bisect_right(self._bulk_rows, label, key=_first_label) - 1]
            found = self._exit_actions[label - FIRST_CONDITIONAL] = bulk.exit_action(label)
        return found

    def row(self, items: Items, *, may_end: bool = False) -> int:
        """Return the row of a set of items; it is added when it is first needed.

        The items must be closed under calls, sorted by state, and have slots numbered in the order
        of first occurrence, so that equal sets are equal tuples. ``may_end`` says that the whole
        text may end here; such a row is separate from the one of the same items otherwise.
        """
        if len(items) == 1 and not may_end:
            return self._state_row(*items[0])
        row = self._row_by_set.get((items, may_end))
        if row is None:
            row = DEAD if may_end else self.sets.find_row(items)
            if row == DEAD:
                row = self._add_sets_from(items, may_end)
            self._row_by_set[items, may_end] = row
        return row

    def _intern_label(self, exit_action: Return | Enter | AmbiguousByte) -> int:
        """Return the label of an exit action, one for equal ones; may add it.

        Labels begin at FIRST_CONDITIONAL.
        """
        label = self._labels.setdefault(exit_action, FIRST_CONDITIONAL + len(self._exit_actions))
        if label == FIRST_CONDITIONAL + len(self._exit_actions):
            self._exit_actions.append(exit_action)
        return label

    def _exit_only_row(self, exit_action: Enter | AmbiguousByte) -> int:
        """Return the row that has no moves but only this exit action."""
        label = self._intern_label(exit_action)
        row = self._exit_only_rows.get(label)
        if row is None:
            row = self._exit_only_rows[label] = self.table.add_row({}, label=label)
            self._items[row] = exit_action.items
        return row

    # --- single states --------------------------------------------------------------------

    def _state_row(self, state: int, slot: int) -> int:
        """Return the row of a single state, in the block of its rule for the slot."""
        rule = self.network.rule_of(state)
        first = self._first_row_by_block.get((rule, slot))
        if first is None:
            first = self._first_row_by_block[rule, slot] = self._add_block(rule, slot)
        return first + state - self.network.starts[rule]

    def _add_block(self, rule: int, slot: int) -> int:
        """Add the block of a rule for a slot; returns the row of its first state.

        Its exit actions except Return get consecutive labels, which ``exit_action`` computes
        when it is needed.
        """
        block = self._rule_blocks.get(rule)
        if block is None:
            block = self._rule_blocks[rule] = self._build_rule_block(rule)
        spend(50 + block.num_states)
        # The label of Return first, as it may be new, and the others have to be consecutive.
        end, num_labels = self._intern_label(Return((slot,))), len(block.exits) - 1
        label = FIRST_CONDITIONAL + len(self._exit_actions)
        # By label of the block; the last is for states without one, see ``add_block``.
        labels = np.array([end, *range(label, label + num_labels), DEAD], dtype=np.int32)
        first = self.table.add_block(block.block, labels)
        self._exit_actions += [None] * num_labels
        self._bulk_rows.append(_BlockRows(first, label, slot, block))
        return first

    def _build_rule_block(self, rule: int) -> _RuleBlock:
        """Return what the blocks of a rule have in common for all slots; not cached here."""
        network = self.network
        begin = network.starts[rule]
        end = network.starts[rule + 1] if rule + 1 < len(network.starts) else len(network)
        size = end - begin
        spend(3 * size)
        byte_class, table, label, exits = rule_rows(
            *(network.moves, network.byte_class, network.rule_classes[rule], begin, end),
            *(network.accepting, self.has_calls, self.follow[rule]),
        )
        # States of a network all lead to an end, so the automaton is trimmed.
        block = make_block(ByteDfa(byte_class, table, label))
        return _RuleBlock(begin, size, block, exits.tolist())

    # --- sets of states -------------------------------------------------------------------

    def _add_sets_from(self, items: Items, may_end: bool) -> int:
        """Add a set of states, and the sets that bytes lead to inside the same rules.

        Returns the row of the set. Reachable sets are added in bulk, as most are needed soon;
        ``StateSets`` limits how many at once.
        """
        sets = self.sets
        num_before = len(sets)
        try:
            return self._add_rows(sets.explore(items, is_private=may_end), may_end)
        except BaseException:
            # Sets without rows must not stay in the hash table.
            sets.truncate(num_before)
            raise

    def _add_rows(self, found: Explored, may_end: bool) -> int:
        """Add rows for the sets that were found; returns the row of the first of them.

        Sets that do not become rows (``Explored.becomes_row``) get one with only an exit action,
        Enter. It is in ``sets.rows`` only while edges that lead to it are written.
        """
        spend(10 * len(found.becomes_row) + len(found.edges))
        sets = self.sets
        # Blocks of rules first, as they add labels, and those of the ambiguous bytes, from
        # ``label`` on, have to be consecutive. ``offsets``: by pair, row less number of a state.
        offsets: list[int] = []
        for rule, slot in found.pairs.tolist():
            begin = self.network.starts[rule]
            offsets.append(self._state_row(begin, slot) - begin)
        numbers: list[int] = []
        exit_only: list[int] = []
        for number, becomes_row in enumerate(found.becomes_row.tolist(), found.first_set):
            if becomes_row:
                numbers.append(number)
            else:
                sets.rows[number] = self._exit_only_row(Enter(sets.items(number)))
                exit_only.append(number)
        labels = self._return_labels(found.ending_slots)
        label = FIRST_CONDITIONAL + len(self._exit_actions)
        row = self.table.add_sets(
            found.byte_classes,
            labels,
            found.edges,
            sets.rows,
            numbers,
            offsets,
            len(found.ambiguous),
            label,
        )
        self._exit_actions += [None] * len(found.ambiguous)
        self._bulk_rows.append(_SetRows(row, label, sets, numbers, found.ambiguous))
        # A later look-up of such a set needs its real row.
        for number in exit_only:
            sets.rows[number] = DEAD
        if may_end:
            # Bytes that lead to the same items must not lead to this row: the text may not end
            # there. And here no byte is the only one that may follow, as the text may end.
            sets.rows[found.first_set] = DEAD
            self.may_end.add(row)
            self.table.only[row] = DEAD
        return row

    def _return_labels(self, ending_slots: NDArray[np.bool_]) -> list[int]:
        """Return by row the label of its Return, DEAD if no rule ends in it; may add labels.

        ``ending_slots``, bool ``[rows, slots]`` with one slot at least, has the slots of the rules
        that end.
        """
        width, flags = ending_slots.shape[1], ending_slots.tobytes()
        row_flags = [flags[at : at + width] for at in range(0, len(flags), width)]
        label_by_flags = {bytes(width): DEAD}
        for ends_by_slot in row_flags:
            if ends_by_slot not in label_by_flags:
                slots = tuple([slot for slot, ends in enumerate(ends_by_slot) if ends])
                label_by_flags[ends_by_slot] = self._intern_label(Return(slots))
        return [label_by_flags[ends_by_slot] for ends_by_slot in row_flags]
