"""The states of a JSON document in the transition table, laid down when a text first gets there."""

from __future__ import annotations

from typing import Final

from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import CLOSE, ITEM, EmptyArray, ExitActions
from guided.json_schema.machine.name_states import NameStates
from guided.json_schema.machine.spelled_texts import Chains
from guided.json_schema.machine.stacks import ObjectFrame
from guided.json_schema.machine.structural_states import StructuralStates
from guided.json_schema.machine.value_edges import ValueEdges
from guided.machine.table import END_ROW, TransitionTable

__all__ = ["DocumentStates"]

_COLON: Final = ord(":")


class DocumentStates:
    """Lays down what stands between values; equal places of different stacks share their states.

    The first to use a table lays down the state after the document, which all of them share.

    Methods that lay states down raise LimitExceededError past the limit of the table.
    """

    def __init__(self, evaluation: Evaluation, table: TransitionTable) -> None:
        self.evaluation = evaluation
        self.scalars = evaluation.scalars
        self.table = table
        self.labels = ExitActions()
        self.structural = StructuralStates(
            table, self.scalars.options.whitespace, self.scalars.missing
        )
        # Caches of states, which never change: a key has to contain all that its states depend on.
        self._values: dict[object, int] = {}
        self._colons: dict[int, int] = {}
        """By the state of the value after it."""
        self._commas: dict[int, int] = {}
        """By the state after the quote that follows it."""
        self._members: dict[object, int] = {}
        self._member_rows: dict[object, int] = {}
        self._items: dict[object, int] = {}
        """For ``first_item``, ``next_item`` and ``_only_close``, whose keys cannot be equal."""
        # State 0 of every table is the end of a document; recognisers share tables.
        if not table.num_rows:
            end_row = table.add_row({})
            assert end_row == END_ROW, end_row
        self.chains = Chains(self.table)
        self.names = NameStates(self.chains, self.labels)
        self._edges = ValueEdges(evaluation, self.chains, self.labels)

    # --- values ---------------------------------------------------------------------------

    def value(self, stack: int, *, spaced: bool = True) -> int:
        """Return the state in which the value awaited in a stack begins.

        ``spaced`` allows white space before it, as the options do; else its first byte comes next.
        """
        key = self._value_key(stack, spaced)
        found = self._values.get(key)
        if found is None:
            # ``way`` is the first byte of a short value. The table cannot find it without help: an
            # opening bracket looks like one byte.
            edges, way = self._edges.of(stack)
            found = self._values[key] = self.structural.state(edges, spaced=spaced, way=way)
        return found

    def colon_and_value(self, stack: int) -> int:
        """Return the state after a name.

        It is the same for all stacks whose values begin in the same state.
        """
        value = self.value(stack)
        found = self._colons.get(value)
        if found is None:
            found = self._colons[value] = self.structural.state({_COLON: value})
        return found

    def _value_key(self, stack: int, spaced: bool) -> object:
        """Return all that the state where a value begins depends on, so stacks can share it."""
        return (*self._edges.key(stack), spaced)

    # --- objects --------------------------------------------------------------------------

    def members(self, stack: int) -> int:
        """Return the state in which the next member or the closing brace is due.

        The frame of a plain object determines everything except whether it may close, so stacks
        with equal frames share a state by these two; other objects have a state for each stack.
        """
        frame = self.evaluation.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        closable = self.evaluation.awaited.may_close(stack)
        # Only its frame determines which names a plain object may be given.
        plain = self.evaluation.objects.plain(frame) is not None
        place: object = (frame, closable) if plain else stack
        found = self._members.get(place)
        if found is None:
            found = self._members[place] = self._new_members(stack, frame, closable)
        return found

    def _new_members(self, stack: int, frame: ObjectFrame, closable: bool) -> int:
        """Compute ``members`` for a new place; states with the same edges are still one.

        The three parts of ``key`` are all that the edges depend on.
        """
        names, classes = self.evaluation.names.candidates(stack)
        after_quote = self._name(frame, names, classes) if names or classes else None
        key = (frame.begun, closable, after_quote)
        if key not in self._member_rows:
            edges = {ord("}"): self.chains.exit_state(CLOSE)} if closable else {}
            if after_quote is not None:
                quote = {ord('"'): after_quote}
                if frame.begun:
                    edges[ord(",")] = self._after_comma(quote)
                else:
                    edges |= quote
            way = ord("}") if closable else None
            self._member_rows[key] = self.structural.state(edges, way=way, between=True)
        return self._member_rows[key]

    def _after_comma(self, quote: dict[int, int]) -> int:
        """Return the state after a comma where only a name may come; ``quote`` is its only edge."""
        after_quote = quote[ord('"')]
        if after_quote not in self._commas:
            self._commas[after_quote] = self.structural.state(quote)
        return self._commas[after_quote]

    def _name(self, frame: ObjectFrame, names: tuple[str, ...], classes: frozenset[int]) -> int:
        """Return the state after the opening quote of a name.

        Names spelled out come in the order of the schema; ``classes`` are those of all other names
        that may be written. One of the two is not empty.
        """
        if not classes:
            return self.names.closed(names)
        spelled = self.evaluation.objects.orders[frame.order].names
        space = self.evaluation.objects.members.space(frame.goals)
        return self.names.open(space, classes, spelled, names)

    # --- arrays ---------------------------------------------------------------------------

    def first_item(self, stack: int, item: int | None) -> tuple[int, int]:
        """Return the stack and the state after an opening bracket.

        ``item`` is the stack of the first item, ``None`` if there must not be one. Then the
        array closes at once: it would not have been opened without a completion.
        """
        closable = self.evaluation.awaited.may_close(stack)
        if item is None:
            assert closable, self.evaluation.stacks.frames[stack]
            return stack, self._only_close()
        truth = self.evaluation.awaited.closed(stack) if closable else None
        key = (self._value_key(item, True), truth)
        if key not in self._items:
            edges, way = self._edges.of(item)
            if truth is not None:
                # Edges are shared by all places that await this value.
                edges = dict(edges)
                edges[ord("]")] = self.chains.exit_state(self.labels.number(EmptyArray(truth)))
                way = ord("]")
            self._items[key] = self.structural.state(edges, way=way)
        return item, self._items[key]

    def next_item(self, stack: int) -> int:
        """Return the state after an item: a comma, the closing bracket, or both.

        All arrays that may do the same share one state: ITEM finds the next item from the stack.
        At least one of the two edges is there, since the stack has a completion.
        """
        closable = self.evaluation.awaited.may_close(stack)
        more = self.evaluation.items.begun(stack) is not None
        key = (closable, more)
        if key not in self._items:
            edges = {ord("]"): self.chains.exit_state(CLOSE)} if closable else {}
            if more:
                edges[ord(",")] = self.chains.exit_state(ITEM)
            self._items[key] = self.structural.state(
                edges, way=ord("]") if closable else None, between=True
            )
        return self._items[key]

    def _only_close(self) -> int:
        """Return the state in which only the closing bracket of an array may come."""
        if "close" not in self._items:
            self._items["close"] = self.structural.state(
                {ord("]"): self.chains.exit_state(CLOSE)}, between=True
            )
        return self._items["close"]
