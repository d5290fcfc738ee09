"""The first bytes of a value in a JSON document, and the states after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula, truth_vector
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import OPEN_ARRAY, OPEN_OBJECT, Done, ExitActions
from guided.json_schema.machine.scalar_blocks import json_key
from guided.json_schema.machine.spelled_texts import Chains, add_texts
from guided.json_schema.machine.stacks import Pending
from guided.machine.block import Block
from guided.regular.dfa import DEAD
from guided.regular.reachability import endless_states
from guided.runtime.fuel import with_pauses

__all__ = ["ValueEdges"]

_ALL_TYPES: Final = frozenset(JsonType)
_Lay = Callable[[tuple[Formula, ...], frozenset[int]], Block | None]


class ValueEdges:
    """Lays down what may be awaited as a value: constants, numbers, strings, opening brackets.

    ``chains`` lay texts down in the table where blocks are laid down as well; ``labels`` number
    exit actions of the machine. Methods that lay states down raise LimitExceededError past the
    limit of the table.
    """

    def __init__(self, evaluation: Evaluation, chains: Chains, labels: ExitActions) -> None:
        self._evaluation = evaluation
        self._scalars = evaluation.scalars
        self._table = chains.table
        self._chains = chains
        self._labels = labels
        # Blocks are compared by identity: ``shared_block`` makes equal ones once.
        self._blocks: dict[Block, int] = {}
        """The state where a block begins."""
        self._edges: dict[object, tuple[dict[int, int], int]] = {}

    def key(self, stack: int) -> tuple[tuple[Formula, ...], tuple[int, ...]]:
        """Return all that the edges depend on: the formulas asked, and the truth vectors accepted.

        Whatever else they may depend on later has to be added here: stacks with equal keys share
        them.
        """
        pending = self._evaluation.stacks.frames[stack]
        assert isinstance(pending, Pending), pending
        return pending.asks, self._evaluation.awaited.accepted(stack)

    def of(self, stack: int) -> tuple[dict[int, int], int]:
        """Return the first bytes of the awaited value with their states, and that of a short value.

        The dictionary is kept and shared by all stacks with this key: callers copy it before they
        change it.
        """
        key = asks, truths = self.key(stack)
        found = self._edges.get(key)
        if found is None:
            edges = self._new_edges(stack, asks, frozenset(truths))
            found = self._edges[key] = (edges, self._evaluation.awaited.short_value(stack)[0])
        return found

    def _new_edges(
        self, stack: int, asks: tuple[Formula, ...], truths: frozenset[int]
    ) -> dict[int, int]:
        """Return the states after the first byte of a value, by that byte.

        ``asks`` are the formulas asked of the value, ``truths`` the truth vectors that are accepted
        in the stack. A byte leads on if some value that begins with it has one of these. Values of
        two types never begin with the same byte, so no edge replaces another.
        """
        to = self._evaluation.restriction
        # A value of a type that fits none of the formulas has the truth vector 0.
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
            if truth in truths and self._scalars.missing.isdisjoint(text):
                edges[text[0]] = self._literal(text[1:], self._done(truth))
        if JsonType.NUMBER in types:
            numbers = tuple(to.to(JsonType.NUMBER, ask) for ask in asks)
            edges.update(self._block_edges(numbers, truths, self._scalars.numbers.block))
        if JsonType.STRING in types:
            strings = tuple(to.to(JsonType.STRING, ask) for ask in asks)
            edges.update(self._string_edges(strings, truths))
        for kind, byte, label in (
            (JsonType.OBJECT, ord("{"), OPEN_OBJECT),
            (JsonType.ARRAY, ord("["), OPEN_ARRAY),
        ):
            spelled = kind in types and byte not in self._scalars.missing
            if spelled and self._opens(stack, kind, asks):
                edges[byte] = self._chains.exit_state(label)
        return edges

    def _opens(self, stack: int, kind: JsonType, asks: tuple[Formula, ...]) -> bool:
        """Return whether a container of a kind may open; if it fits nothing, its vector is 0."""
        if len(asks) == 1 and self._evaluation.restriction.to(kind, asks[0]) is FALSE:
            return self._evaluation.awaited.accepts(stack, 0)
        return self._evaluation.awaited.open(stack, kind) is not None

    def _string_edges(self, asks: tuple[Formula, ...], truths: frozenset[int]) -> dict[int, int]:
        """Return the state after an opening quote, by the quote; empty if no string may stand here.

        Three ways: strings that are all listed are chains; listed ones among others are laid over
        the states of the others; and what is left is an automaton.
        """
        listed = self._scalars.strings.listed(asks, truths)
        if listed is not None:
            texts = [(json_key(text), self._done(truth)) for text, truth in with_pauses(listed)]
            texts = [
                each for each in with_pauses(texts) if self._scalars.missing.isdisjoint(each[0])
            ]
            if not texts:
                return {}
            rests = [(text[1:], label) for text, label in with_pauses(texts)]
            return {ord('"'): self._chains.one_of(rests)}
        laid = self._edges_over_others(asks, truths)
        if laid is not None:
            return laid
        return self._block_edges(asks, truths, self._scalars.strings.block)

    def _edges_over_others(
        self, asks: tuple[Formula, ...], truths: frozenset[int]
    ) -> dict[int, int] | None:
        """Return states of the strings that formulas list, laid over those of all other strings.

        By the opening quote; ``None`` if nothing is listed, or cannot be laid over the others.
        Rows that were laid down before it gives up stay in the table, and nothing leads to them.
        """
        others, texts = self._scalars.strings.without_listed(asks)
        if not texts:
            return None
        block = self._scalars.strings.block(others, truths)
        if block is None or ord('"') in self._scalars.missing:
            return None
        start = self._add_block(block)
        labels = {
            text: self._done(truth) if truth in truths else DEAD for text, truth in texts.items()
        }
        state = add_texts(self._chains, start, endless_states(block.dfa.next), labels)
        # Without the texts that are not allowed, strings may be too long for their bound.
        if state is None or self._table.min_remaining[state] > self._table.high[state]:
            return None
        return {ord('"'): state}

    def _block_edges(
        self, asks: tuple[Formula, ...], truths: frozenset[int], lay: _Lay
    ) -> dict[int, int]:
        """Return the states after the first byte of a block that ``lay`` makes; empty for no block.

        Each leads into the block after its first byte: the state at its start is not entered.
        """
        block = lay(asks, truths)
        if block is None:
            return {}
        start = self._add_block(block)
        return {byte: start + state for byte, state in block.first.items()}

    def _add_block(self, block: Block) -> int:
        """Return the state where a block begins.

        Labels of a block are indices in its ``verdicts``; here they become exit actions of this
        machine.
        """
        if block not in self._blocks:
            labels = {label: self._done(v) for label, v in enumerate(block.verdicts)}
            self._blocks[block] = self._table.add_block(block, labels)
        return self._blocks[block]

    def _done(self, truth: int) -> int:
        """Return the exit action of a complete value with this truth vector."""
        return self._labels.number(Done(truth))

    def _literal(self, rest: bytes, label: int) -> int:
        return self._chains.chains([(rest, label)])[0].state
