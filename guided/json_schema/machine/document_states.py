"""The states of a JSON document in the transition table, laid down when a text first gets there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula, truth_vector
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import (
    CLOSE,
    ITEM,
    OPEN_ARRAY,
    OPEN_OBJECT,
    Done,
    EmptyArray,
    ExitActions,
)
from guided.json_schema.machine.name_states import NameStates
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.spelled_texts import Chains, lay_texts
from guided.json_schema.machine.stacks import ObjectFrame, Pending
from guided.json_schema.machine.structural_states import StructuralStates
from guided.machine.block import Block
from guided.machine.table import END_ROW, TransitionTable
from guided.regular.dfa import DEAD
from guided.regular.reachability import endless_states
from guided.runtime.fuel import breathing

__all__ = ["DocumentStates"]

_ALL_TYPES: Final = frozenset(JsonType)
_COLON: Final = ord(":")
_Lay = Callable[[tuple[Formula, ...], frozenset[int]], Block | None]


class DocumentStates:
    """Lays blocks down for stacks; equal places of different stacks share their states.

    The first to use a table lays down the state after the document, which is that of all of them.

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
        # Caches of states, which never change: a key has to tell all that its states depend on.
        # Blocks are compared by identity: ``shared_block`` makes equal ones once.
        self._blocks: dict[Block, int] = {}
        self._edges: dict[object, tuple[dict[int, int], int]] = {}
        self._values: dict[object, int] = {}
        self._colons: dict[int, int] = {}
        """By the state of the value after it."""
        self._commas: dict[int, int] = {}
        """By the state after the quote that follows it."""
        self._members: dict[object, int] = {}
        self._member_rows: dict[object, int] = {}
        self._items: dict[object, int] = {}
        """Of ``first_item``, ``next_item`` and ``_only_close``, whose keys cannot be equal."""
        # State 0 of every table is the end of a document; recognisers share tables.
        if not table.num_rows:
            end_row = table.add_row({})
            assert end_row == END_ROW, end_row
        self.chains = Chains(self.table)
        self.names = NameStates(self.chains, self.labels)

    # --- values ---------------------------------------------------------------------------

    def value(self, stack: int, *, spaced: bool = True) -> int:
        """The state in which the value awaited in a stack begins.

        ``spaced`` allows white space before it, as the options do; else its first byte comes next.
        """
        key = self._value_key(stack, spaced)
        found = self._values.get(key)
        if found is None:
            # ``way`` is the first byte of a short value. The table cannot know it by itself: a
            # bracket that opens looks like one byte.
            edges, way = self._value_edges(stack)
            found = self._values[key] = self.structural.state(edges, spaced=spaced, way=way)
        return found

    def colon_and_value(self, stack: int) -> int:
        """The state after a name.

        One for all stacks whose values begin in the same state.
        """
        value = self.value(stack)
        found = self._colons.get(value)
        if found is None:
            found = self._colons[value] = self.structural.state({_COLON: value})
        return found

    def _value_key(self, stack: int, spaced: bool) -> object:
        """All that the state where a value begins depends on, so that stacks can share it.

        What else the state comes to depend on has to be added here: stacks with equal keys get one
        state.
        """
        pending = self.evaluation.stacks.frames[stack]
        assert isinstance(pending, Pending), pending
        return (pending.asks, self.evaluation.awaited.accepted(stack), spaced)

    def _value_edges(self, stack: int) -> tuple[dict[int, int], int]:
        """The first bytes of the value awaited, with their states, and that of a short one.

        The dictionary is kept and shared by all stacks with this key: callers copy it before they
        change it.
        """
        pending = self.evaluation.stacks.frames[stack]
        assert isinstance(pending, Pending), pending
        # What may begin here depends on nothing else of the stack.
        key = (pending.asks, self.evaluation.awaited.accepted(stack))
        found = self._edges.get(key)
        if found is None:
            edges = self._new_value_edges(stack, pending.asks, frozenset(key[1]))
            found = self._edges[key] = (edges, self.evaluation.awaited.short_value(stack)[0])
        return found

    def _new_value_edges(
        self, stack: int, asks: tuple[Formula, ...], truths: frozenset[int]
    ) -> dict[int, int]:
        """The states after the first byte of a value, by that byte.

        ``asks`` are the formulas asked of the value, ``truths`` the truth vectors that are accepted
        in the stack. A byte leads on if some value that begins with it has one of these. Values of
        two types never begin with the same byte, so no edge takes the place of another.
        """
        to = self.evaluation.restriction
        # Of a type that fits none of the formulas, a value has the truth vector 0.
        types = _ALL_TYPES if 0 in truths else frozenset().union(*map(to.types, asks))
        edges: dict[int, int] = {}
        constants: list[tuple[bytes, list[bool]]] = []
        if JsonType.NULL in types:
            constants.append((b"null", [to.null(ask) for ask in asks]))
        if JsonType.BOOLEAN in types:
            constants.append((b"true", [to.boolean(ask, True) for ask in asks]))
            constants.append((b"false", [to.boolean(ask, False) for ask in asks]))
        for text, fits in constants:
            truth = truth_vector(fits)
            if truth in truths and self.scalars.missing.isdisjoint(text):
                edges[text[0]] = self._literal(text[1:], self._done(truth))
        if JsonType.NUMBER in types:
            numbers = tuple(to.to(JsonType.NUMBER, ask) for ask in asks)
            edges.update(self._block_edges(numbers, truths, self.scalars.numbers.block))
        if JsonType.STRING in types:
            strings = tuple(to.to(JsonType.STRING, ask) for ask in asks)
            edges.update(self._string_edges(strings, truths))
        for kind, byte, label in (
            (JsonType.OBJECT, ord("{"), OPEN_OBJECT),
            (JsonType.ARRAY, ord("["), OPEN_ARRAY),
        ):
            spelled = kind in types and byte not in self.scalars.missing
            if spelled and self._opens(stack, kind, asks):
                edges[byte] = self.chains.exit_state(label)
        return edges

    def _opens(self, stack: int, kind: JsonType, asks: tuple[Formula, ...]) -> bool:
        """Whether a container of a kind may open; one that fits nothing has the truth vector 0."""
        if len(asks) == 1 and self.evaluation.restriction.to(kind, asks[0]) is FALSE:
            return self.evaluation.awaited.accepts(stack, 0)
        return self.evaluation.awaited.open(stack, kind) is not None

    def _string_edges(self, asks: tuple[Formula, ...], truths: frozenset[int]) -> dict[int, int]:
        """The state after an opening quote, by the quote; empty where no string may stand here.

        Three ways: strings that are all listed are chains; listed ones among others are laid over
        the states of those; and what is left is an automaton of its own.
        """
        listed = self.scalars.strings.listed(asks, truths)
        if listed is not None:
            texts = [(json_key(text), self._done(truth)) for text, truth in breathing(listed)]
            texts = [each for each in breathing(texts) if self.scalars.missing.isdisjoint(each[0])]
            if not texts:
                return {}
            rests = [(text[1:], label) for text, label in breathing(texts)]
            return {ord('"'): self.chains.one_of(rests)}
        laid = self._edges_over_others(asks, truths)
        if laid is not None:
            return laid
        return self._block_edges(asks, truths, self.scalars.strings.block)

    def _edges_over_others(
        self, asks: tuple[Formula, ...], truths: frozenset[int]
    ) -> dict[int, int] | None:
        """States of the strings that formulas list, laid over those of all other strings.

        By the opening quote; ``None`` where nothing is listed, or cannot be laid over the others.
        Rows that were laid down before it gives up stay in the table, and nothing leads to them.
        """
        others, texts = self.scalars.strings.without_listed(asks)
        if not texts:
            return None
        block = self.scalars.strings.block(others, truths)
        if block is None or ord('"') in self.scalars.missing:
            return None
        start = self._laid(block)
        labels = {
            text: self._done(truth) if truth in truths else DEAD for text, truth in texts.items()
        }
        state = lay_texts(self.chains, start, endless_states(block.dfa.next), labels)
        # Without the texts that are not allowed, strings may be too long for their bound.
        if state is None or self.table.need[state] > self.table.high[state]:
            return None
        return {ord('"'): state}

    def _block_edges(
        self, asks: tuple[Formula, ...], truths: frozenset[int], lay: _Lay
    ) -> dict[int, int]:
        """The states after the first byte of a block that ``lay`` makes; empty for no block.

        Each leads into the block after its first byte: the state at its start is not entered.
        """
        block = lay(asks, truths)
        if block is None:
            return {}
        start = self._laid(block)
        return {byte: start + state for byte, state in block.first.items()}

    def _laid(self, block: Block) -> int:
        """The state where a block begins.

        Labels of a block are indices in its ``verdicts``, and are made exit actions of this machine
        here.
        """
        if block not in self._blocks:
            labels = {label: self._done(v) for label, v in enumerate(block.verdicts)}
            self._blocks[block] = self.table.add_block(block, labels)
        return self._blocks[block]

    def _done(self, truth: int) -> int:
        """The exit action of a complete value with this truth vector."""
        return self.labels.number(Done(truth))

    def _literal(self, rest: bytes, label: int) -> int:
        return self.chains.chains([(rest, label)])[0].state

    # --- objects --------------------------------------------------------------------------

    def members(self, stack: int) -> int:
        """The state in which the next member or the closing brace is due.

        The frame says all of a plain object but whether it may close, so stacks with equal frames
        share a state by these two; of other objects each stack has its own.
        """
        frame = self.evaluation.stacks.frames[stack]
        assert isinstance(frame, ObjectFrame), frame
        closable = self.evaluation.awaited.may_close(stack)
        # Nothing but its frame tells which names a plain object may be given.
        plain = self.evaluation.objects.plain(frame) is not None
        place: object = (frame, closable) if plain else stack
        found = self._members.get(place)
        if found is None:
            found = self._members[place] = self._new_members(stack, frame, closable)
        return found

    def _new_members(self, stack: int, frame: ObjectFrame, closable: bool) -> int:
        """``members`` for a place that is new; states with the same edges are still one.

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
        """The state after a comma, where only a name may come; ``quote`` is its one edge."""
        after_quote = quote[ord('"')]
        if after_quote not in self._commas:
            self._commas[after_quote] = self.structural.state(quote)
        return self._commas[after_quote]

    def _name(self, frame: ObjectFrame, names: tuple[str, ...], classes: frozenset[int]) -> int:
        """The state after the opening quote of a name.

        Names spelled out come in the order of the schema, ``classes`` are those of all other names
        that may be written; one of the two is not empty.
        """
        if not classes:
            return self.names.closed(names)
        spelled = self.evaluation.objects.orders[frame.order].names
        space = self.evaluation.objects.members.space(frame.goals)
        return self.names.open(space, classes, spelled, names)

    # --- arrays ---------------------------------------------------------------------------

    def first_item(self, stack: int, item: int | None) -> tuple[int, int]:
        """The stack and the state after an opening bracket.

        ``item`` is the stack of the first item, ``None`` where there must not be one. Then the
        array closes at once: it would not have been opened without a completion.
        """
        closable = self.evaluation.awaited.may_close(stack)
        if item is None:
            assert closable, self.evaluation.stacks.frames[stack]
            return stack, self._only_close()
        truth = self.evaluation.awaited.closed(stack) if closable else None
        key = (self._value_key(item, True), truth)
        if key not in self._items:
            edges, way = self._value_edges(item)
            if truth is not None:
                # Edges are shared by all places that await this value.
                edges = dict(edges)
                edges[ord("]")] = self.chains.exit_state(self.labels.number(EmptyArray(truth)))
                way = ord("]")
            self._items[key] = self.structural.state(edges, way=way)
        return item, self._items[key]

    def next_item(self, stack: int) -> int:
        """The state after an item: a comma, the closing bracket, or both.

        One state for all arrays that may do the same: what the next item is, ITEM finds out from
        the stack. One of the two edges is always there, since the stack has a completion.
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
        """The state in which nothing but the closing bracket of an array may come."""
        if "close" not in self._items:
            self._items["close"] = self.structural.state(
                {ord("]"): self.chains.exit_state(CLOSE)}, between=True
            )
        return self._items["close"]
