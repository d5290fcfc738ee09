"""The first bytes of a value in a JSON document, and the states after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, Formula, pack_truth_vector
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.exit_actions import OPEN_ARRAY, OPEN_OBJECT, Done, ExitActions
from guided.json_schema.machine.scalar_blocks import ONLY_REQUIRED, json_literal
from guided.json_schema.machine.shortest_values import MAX_SHORTEST_BYTES
from guided.json_schema.machine.spelled_texts import ChainBuilder, overlay_strings
from guided.json_schema.machine.stacks import AwaitedValue
from guided.machine.block import Block
from guided.machine.table import UNCOUNTED
from guided.regular.dfa import DEAD
from guided.regular.reachability import states_reaching_cycle
from guided.runtime.work_budget import with_pauses
from guided.spec import Spelling

__all__ = ["ValueEdges"]

_ALL_TYPES: Final = frozenset(JsonType)
_OTHER_SCALARS: Final = frozenset((JsonType.NULL, JsonType.BOOLEAN, JsonType.NUMBER))
_MakeBlock = Callable[[tuple[Formula, ...], frozenset[int]], Block | None]


class ValueEdges:
    """Adds the states of values: constants, numbers, strings, opening brackets.

    States are rows of the table of ``chains``. ``formulas`` are those asked of a value, and
    ``truth_vectors`` those that its stack accepts. Methods that add states raise LimitExceededError
    past the limit of the table.
    """

    def __init__(
        self, evaluation: Evaluation, chains: ChainBuilder, exit_actions: ExitActions
    ) -> None:
        self._evaluation = evaluation
        self._scalars = evaluation.scalars
        self._table = chains.table
        self._chains = chains
        self._exit_actions = exit_actions
        # Blocks are compared by identity: ``shared_block`` returns one object for equal ones as
        # long as it keeps it. One that was evicted and made again only takes rows again.
        self._blocks: dict[tuple[Block, bool], int] = {}
        """The state where a block begins; the key is that of ``_add_block``."""
        self._edges: dict[object, tuple[dict[int, int], int]] = {}
        """The results of ``first_bytes`` by ``cache_key``."""

    def cache_key(self, stack: int) -> tuple[tuple[Formula, ...], tuple[int, ...], bool]:
        """Return all that the edges depend on.

        These are the formulas, the accepted truth vectors, and whether the value is remembered.
        """
        awaited = self._evaluation.stacks.frames[stack]
        assert isinstance(awaited, AwaitedValue), awaited
        accepted = self._evaluation.value_stacks.accepted_vectors(stack)
        return awaited.formulas, accepted, awaited.remembers_text

    def first_bytes(self, stack: int) -> tuple[dict[int, int], int]:
        """Return the state after each first byte of a value, and the first byte of a short value.

        The dictionary is shared by all stacks with an equal ``cache_key``: it must not be changed.
        """
        key = formulas, truth_vectors, is_remembered = self.cache_key(stack)
        found = self._edges.get(key)
        if found is None:
            edges = self._build_edges(stack, formulas, frozenset(truth_vectors), is_remembered)
            found = self._edges[key] = (edges, self._evaluation.value_stacks.short_value(stack)[0])
        return found

    def _build_edges(
        self,
        stack: int,
        formulas: tuple[Formula, ...],
        truth_vectors: frozenset[int],
        is_remembered: bool,
    ) -> dict[int, int]:
        """Compute the states of ``first_bytes``.

        A byte has one if some value that begins with it has an accepted truth vector. Values of two
        types never begin with the same byte, so no edge replaces another. Of ``stack`` nothing may
        matter but its ``cache_key``.
        """
        restriction = self._evaluation.restriction
        # A value of a type that fits none of the formulas has the truth vector 0.
        types = (
            _ALL_TYPES
            if 0 in truth_vectors
            else frozenset().union(*map(restriction.types, formulas))
        )
        edges: dict[int, int] = {}
        constants: list[tuple[bytes, list[bool]]] = []
        if JsonType.NULL in types:
            constants.append((b"null", [restriction.fits_null(formula) for formula in formulas]))
        if JsonType.BOOLEAN in types:
            constants.append(
                (b"true", [restriction.fits_boolean(formula, True) for formula in formulas])
            )
            constants.append(
                (b"false", [restriction.fits_boolean(formula, False) for formula in formulas])
            )
        for text, fits in constants:
            truth_vector = pack_truth_vector(fits)
            if truth_vector in truth_vectors and self._scalars.unavailable_bytes.isdisjoint(text):
                rest = (text[1:], self._done_action(truth_vector))
                edges[text[0]] = self._chains.get_or_add([rest])[0].state
        if JsonType.NUMBER in types:
            numbers = tuple(restriction.to_type(JsonType.NUMBER, formula) for formula in formulas)
            edges.update(self._block_edges(numbers, truth_vectors, self._scalars.numbers.block))
        if JsonType.STRING in types:
            strings = tuple(restriction.to_type(JsonType.STRING, formula) for formula in formulas)
            # Only a string that ends can equal a later string, so its end is told apart.
            is_told = is_remembered and not _OTHER_SCALARS.isdisjoint(types)
            edges.update(self._string_edges(strings, truth_vectors, is_told))
        for kind, byte, label in (
            (JsonType.OBJECT, ord("{"), OPEN_OBJECT),
            (JsonType.ARRAY, ord("["), OPEN_ARRAY),
        ):
            spelled = kind in types and byte not in self._scalars.unavailable_bytes
            if spelled and self._may_open(stack, kind, formulas):
                edges[byte] = self._chains.exit_state(label)
        return edges

    def _may_open(self, stack: int, kind: JsonType, formulas: tuple[Formula, ...]) -> bool:
        """Return whether a container of a type may open where ``formulas`` are asked of it.

        Where none of that type fits the only formula, the truth vector 0 has to be accepted.
        """
        if len(formulas) == 1 and self._evaluation.restriction.to_type(kind, formulas[0]) is FALSE:
            return self._evaluation.value_stacks.accepts(stack, 0)
        return self._evaluation.value_stacks.open(stack, kind) is not None

    def _string_edges(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int], is_told: bool
    ) -> dict[int, int]:
        """Return the state after an opening quote, by the quote; empty if no string may stand here.

        Strings that are all listed are chains, listed ones among others an overlay on the states of
        the others, and anything else is an automaton. With ``is_told`` exit actions of the last two
        say that the value is a string.
        """
        # As for the shortest values: too long ones are none, or one would be begun without an end.
        if (len(formulas), truth_vectors) == (1, ONLY_REQUIRED) and (
            self._scalars.shortest_strings.min_length(formulas[0]) > MAX_SHORTEST_BYTES
        ):
            return {}
        listed = self._scalars.strings.list_with_vectors(formulas, truth_vectors)
        if listed is not None:
            texts = [
                (json_literal(text), self._done_action(truth_vector))
                for text, truth_vector in with_pauses(listed)
            ]
            texts = [
                each
                for each in with_pauses(texts)
                if self._scalars.unavailable_bytes.isdisjoint(each[0])
            ]
            if not texts:
                return {}
            rests = [(text[1:], label) for text, label in with_pauses(texts)]
            return {ord('"'): self._chains.add_choice(rests)}
        edges = self._overlay_edges(formulas, truth_vectors, is_told)
        if edges is not None:
            return edges
        return self._block_edges(formulas, truth_vectors, self._scalars.strings.block, is_told)

    def _overlay_edges(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int], is_told: bool
    ) -> dict[int, int] | None:
        """Return the state of listed strings as an overlay on all others, by the opening quote.

        ``None`` if nothing is listed, no other string fits, or the overlay cannot be made: then the
        caller builds one automaton. Rows that were added before that was found stay unused.
        """
        strings = self._scalars.strings
        others, texts = strings.split_listed(formulas)
        if not texts:
            return None
        if self._scalars.options.spelling is Spelling.ANY:
            # In another spelling a listed text would not be recognised.
            others = (strings.in_one_spelling(others[0]), *others[1:])
        block = strings.block(others, truth_vectors)
        if block is None:
            return None
        start = self._add_block(block, is_told)
        # The block knows no lists, so it reads listed texts as well: each needs a label of its own,
        # DEAD if it is forbidden.
        labels = {
            text: self._done_action(truth_vector, is_told)
            if truth_vector in truth_vectors
            else DEAD
            for text, truth_vector in texts.items()
        }
        infinite = states_reaching_cycle(block.dfa.next)
        state = overlay_strings(self._chains, start, infinite, labels)
        if state is None:
            return None
        # Without the forbidden texts, even the shortest string may be too long for its bound.
        high = self._table.high[state]
        if high != UNCOUNTED and self._table.min_remaining[state] > high:
            return None
        return {ord('"'): state}

    def _block_edges(
        self,
        formulas: tuple[Formula, ...],
        truth_vectors: frozenset[int],
        make_block: _MakeBlock,
        is_told: bool = False,
    ) -> dict[int, int]:
        """Return the state after each first byte of a block; empty if there is no block.

        ``make_block`` is ``StringRules.block`` or ``NumberRules.block``; ``is_told`` is as for
        ``_string_edges``, and only for strings.
        """
        block = make_block(formulas, truth_vectors)
        if block is None:
            return {}
        start = self._add_block(block, is_told)
        return {byte: start + state for byte, state in block.start_moves.items()}

    def _add_block(self, block: Block, is_told: bool) -> int:
        """Return the state where a block begins, added if it is new.

        Its labels, indices in ``truth_vectors``, become exit actions of this machine.
        """
        key = block, is_told
        if key not in self._blocks:
            labels = {
                label: self._done_action(truth_vector, is_told)
                for label, truth_vector in enumerate(block.truth_vectors)
            }
            self._blocks[key] = self._table.add_block(block, labels)
        return self._blocks[key]

    def _done_action(self, truth_vector: int, is_string: bool = False) -> int:
        """Return the exit action of a complete value with this truth vector."""
        return self._exit_actions.action_of(Done(truth_vector, is_string))
