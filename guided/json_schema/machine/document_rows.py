"""The rows of a JSON document in the transition table, added when a text first gets there."""

from __future__ import annotations

from typing import Final

from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import CLOSE, ITEM, EmptyArray, ExitActions
from guided.json_schema.machine.name_states import NameStates
from guided.json_schema.machine.spelled_texts import ChainBuilder
from guided.json_schema.machine.stacks import ObjectFrame
from guided.json_schema.machine.structural_states import StructuralStates
from guided.json_schema.machine.value_edges import ValueEdges
from guided.machine.table import END_ROW, TransitionTable

__all__ = ["DocumentRows"]

_COLON: Final = ord(":")


class DocumentRows:
    """Adds the rows between and before values; equal positions of different stacks share them.

    A row is a state of the table, as an int. The first machine that uses a table adds END_ROW, the
    row after the document, which all machines share. Methods that add rows raise LimitExceededError
    past the limit of the table.
    """

    def __init__(self, evaluation: Evaluation, table: TransitionTable) -> None:
        self.evaluation = evaluation
        self.scalars = evaluation.scalars
        self.table = table
        self.exit_actions = ExitActions()
        self.structural = StructuralStates(
            table, self.scalars.options.whitespace, self.scalars.unavailable_bytes
        )
        # Caches of rows, which never change: a key has to contain all that its row depends on.
        self._row_before_value: dict[object, int] = {}
        """The results of ``before_value``, by ``_value_key``."""
        self._row_before_colon: dict[int, int] = {}
        """The row in which a colon comes next, by the row of the value after it."""
        self._row_before_member: dict[object, int] = {}
        """The results of ``before_member``: by frame and whether it may close if the goal is plain,
        else by stack."""
        self._row_by_member_edges: dict[tuple[bool, bool, int | None], int] = {}
        """The rows that ``before_member`` returns, by what their edges depend on: whether there are
        members, whether the object may close, and the row after the opening quote of a name."""
        self._row_in_array: dict[object, int] = {}
        """For ``after_bracket`` and ``after_item``, whose keys always differ."""
        # Row 0 of every table is the end of a document; recognisers share tables.
        if not table.num_rows:
            end_row = table.add_row({})
            assert end_row == END_ROW, end_row
        self.chains = ChainBuilder(self.table)
        self.names = NameStates(self.chains, self.exit_actions)
        self._value_edges = ValueEdges(evaluation, self.chains, self.exit_actions)

    # --- values ---------------------------------------------------------------------------

    def before_value(self, stack: int, *, spaced: bool = True) -> int:
        """Return the row in which the value awaited in a stack begins.

        ``spaced`` allows white space before it, as the options do; else its first byte comes next.
        """
        key = self._value_key(stack, spaced)
        found = self._row_before_value.get(key)
        if found is None:
            # The first byte of a short value. The table cannot find it by itself: an opening
            # bracket looks like a value of one byte.
            edges, next_byte = self._value_edges.first_bytes(stack)
            found = self._row_before_value[key] = self.structural.add(
                edges, spaced=spaced, next_byte=next_byte
            )
        return found

    def after_name(self, stack: int) -> int:
        """Return the row after a name: a colon, then the value that ``stack`` awaits."""
        value = self.before_value(stack)
        found = self._row_before_colon.get(value)
        if found is None:
            found = self._row_before_colon[value] = self.structural.add({_COLON: value})
        return found

    def _value_key(self, stack: int, spaced: bool) -> object:
        """Return the cache key of ``before_value``: all that the row depends on."""
        return (*self._value_edges.cache_key(stack), spaced)

    # --- objects --------------------------------------------------------------------------

    def before_member(self, stack: int) -> int:
        """Return the row before the next member or the closing brace.

        Objects with a plain goal share a row by their frame and whether they may close, which is
        all that it depends on; of other objects each stack is looked at. A stack with a completion
        has a next member or may close.
        """
        frame = self.evaluation.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        closable = self.evaluation.value_stacks.may_close(stack)
        plain = self.evaluation.objects.plain_goal(frame) is not None
        key: object = (frame, closable) if plain else stack
        found = self._row_before_member.get(key)
        if found is None:
            found = self._row_before_member[key] = self._build_members(stack, frame, closable)
        return found

    def _build_members(self, stack: int, frame: ObjectFrame, closable: bool) -> int:
        """Compute ``before_member``; rows with the same edges are shared by ``key``."""
        names, classes = self.evaluation.names.candidates(stack)
        after_quote = self._add_name(frame, names, classes) if names or classes else None
        key = (frame.has_members, closable, after_quote)
        if key not in self._row_by_member_edges:
            edges = {ord("}"): self.chains.exit_state(CLOSE)} if closable else {}
            if after_quote is not None:
                quote = {ord('"'): after_quote}
                if frame.has_members:
                    edges[ord(",")] = self.structural.add(quote)
                else:
                    edges |= quote
            next_byte = ord("}") if closable else None
            self._row_by_member_edges[key] = self.structural.add(
                edges, next_byte=next_byte, between=True
            )
        return self._row_by_member_edges[key]

    def _add_name(self, frame: ObjectFrame, names: tuple[str, ...], classes: frozenset[int]) -> int:
        """Return the row after the opening quote of a name.

        ``names`` are the spelled-out names that may be written, in order, and ``classes`` those of
        additional names. One of the two is not empty.
        """
        if not classes:
            return self.names.only_spelled(names)
        spelled = self.evaluation.objects.orders[frame.order].names
        space = self.evaluation.objects.members.name_space(frame.goals)
        return self.names.any_allowed(space, classes, spelled, names)

    # --- arrays ---------------------------------------------------------------------------

    def after_bracket(self, stack: int, item: int | None) -> tuple[int, int]:
        """Return the stack and the row after the opening bracket of an array.

        ``item`` is the stack of the first item, ``None`` if there must not be one: then the array
        may close, or it would not have been opened. With an item its stack is returned, in which
        the array closes by ``EmptyArray``, not by CLOSE.
        """
        closable = self.evaluation.value_stacks.may_close(stack)
        if item is None:
            assert closable, self.evaluation.stacks.frames[stack]
            return stack, self._after_items(closable, False)
        truth_vector = self.evaluation.value_stacks.closing_vector(stack) if closable else None
        key = (self._value_key(item, True), truth_vector)
        if key not in self._row_in_array:
            edges, next_byte = self._value_edges.first_bytes(item)
            if truth_vector is not None:
                # Edges are shared by all stacks that await this value.
                edges = dict(edges)
                edges[ord("]")] = self.chains.exit_state(
                    self.exit_actions.action_of(EmptyArray(truth_vector))
                )
                next_byte = ord("]")
            self._row_in_array[key] = self.structural.add(edges, next_byte=next_byte)
        return item, self._row_in_array[key]

    def after_item(self, stack: int) -> int:
        """Return the row after an item: before a comma, the closing bracket, or both.

        All arrays share these rows, as ITEM finds the next item from the stack. Each has at least
        one edge, since the stack has a completion.
        """
        closable = self.evaluation.value_stacks.may_close(stack)
        return self._after_items(closable, self.evaluation.items.enter_item(stack) is not None)

    def after_any_item(self) -> int:
        """Return the row that reads all that may follow an item of any array."""
        return self._after_items(True, True)

    def _after_items(self, closable: bool, more: bool) -> int:
        """Return the row in which an array may close, go on with a comma, or both."""
        key = (closable, more)
        if key not in self._row_in_array:
            edges = {ord("]"): self.chains.exit_state(CLOSE)} if closable else {}
            if more:
                edges[ord(",")] = self.chains.exit_state(ITEM)
            self._row_in_array[key] = self.structural.add(
                edges, next_byte=ord("]") if closable else None, between=True
            )
        return self._row_in_array[key]
