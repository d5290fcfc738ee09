"""The recogniser of a schema's strings as they are, between texts or special tokens, not quotes.

::

    begin ──▶ string, code points counted ──▶ end
              one automaton: both, up to the first end
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import UnsatisfiableError
from guided.json_schema.formulas.assertions import JsonType, Length
from guided.json_schema.formulas.formula import Formula, Formulas, SchemaNode
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.machine.exit_actions import DONE
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalar_blocks import Signatures, shared_block
from guided.json_schema.machine.stacks import ROOT
from guided.json_schema.machine.string_automata import (
    StringAutomata,
    code_points_left,
    counting_ways,
    without_length,
)
from guided.machine.block import CLOSE_STRING, CODE_POINT_END, INSIDE, START, STOP, Block, block_of
from guided.machine.facts import NONE
from guided.machine.parts import MachineParts
from guided.machine.pushdown import PushdownMachine
from guided.machine.recognizer import State, StateSharing
from guided.machine.special_bytes import special_bytes
from guided.machine.table import END_ROW, UNCOUNTED, TransitionTable
from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa, followed_by
from guided.regular.dfa import DEAD, Dfa
from guided.regular.first_end import up_to_first, without_text
from guided.regular.utf8 import utf8_sequences
from guided.spec.bare_string import BareString
from guided.spec.special_token import SpecialToken

__all__ = ["BareStringMachine"]

_END: Final = State(ROOT, END_ROW)


class BareStringMachine(PushdownMachine):
    """Recognises ``asked``, whose schema is a ``JsonGrammar`` here, byte by byte.

    ``missing`` are bytes that the vocabulary cannot spell. Raises UnsatisfiableError if no
    string is left, and LimitExceededError past the limit of the table.
    """

    def __init__(
        self,
        asked: BareString,
        grammar: JsonGrammar,
        missing: frozenset[int],
        table: TransitionTable,
    ) -> None:
        parts = MachineParts(table, _OneStack(), [], "lower the bounds on the length")
        super().__init__(parts, StateSharing())
        if not table.num_rows:
            table.add_row({})  # END_ROW
        row = table.add_block(_block_of(asked, grammar, missing), {0: DONE})
        if isinstance(asked.begin, str) and not missing.isdisjoint(asked.begin.encode()):
            raise _empty(grammar)
        for byte in reversed(_spelled(asked.begin)):
            row = table.add_row({byte: row})
        self.start = State(ROOT, row)

    def is_accepting(self, state: State) -> bool:
        """Return whether the end has been read."""
        return state.row == END_ROW

    def transition(self, stack: int, action: int) -> tuple[int, int]:
        """Return the end: the only exit action, which nothing follows; see ``Recognizer``."""
        assert stack == ROOT and action == DONE, (stack, action)
        return ROOT, END_ROW

    def after_exit(self, state: State) -> State | None:
        """``None``, as the row with the exit action is left as soon as it is entered."""
        assert self.table.label[state.row] == DEAD, state
        return None

    def _entered(self, before: State, row: int, byte: int) -> State | None:  # noqa: ARG002
        """Return the state after a byte that leads to a row, ``None`` if a string gets too long."""
        table = self.table
        if table.label[row] != DEAD:
            return _END
        high = int(table.high[row])
        if high == UNCOUNTED:
            return State(ROOT, row)
        beat = int(table.count_event[row])
        count = 0 if beat == START else before.count + (beat == CODE_POINT_END)
        # The code points that must still come (MIN_REMAINING) would make the string too long.
        return State(ROOT, row, count) if count + int(table.min_remaining[row]) <= high else None

    def bytes_left(self, state: State) -> int:
        """Return the length of ``shortest_completion``."""
        return int(self.table.distance[state.row])

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the text, with no more code points than a bound allows."""
        text, row = bytearray(), state.row
        while (way := int(self.table.next_byte[row])) != STOP:
            text.append(way)
            row = self.table.step(row, way)
        return bytes(text)


class _OneStack:
    """The stacks of a machine in which nothing is ever open."""

    def __init__(self) -> None:
        self.facts: NDArray[np.int32] = np.full((1, 3), NONE, dtype=np.int32)
        self.with_keys: list[int] = []
        self.frames: tuple[object, ...] = (None,)

    def __len__(self) -> int:
        return 1

    def depth(self, number: int) -> int:  # noqa: ARG002 - there is but one
        """None is remembered."""
        return 0

    def taken(self, number: int) -> int:  # noqa: ARG002
        """There are no names."""
        return 0

    def free_keys(self, number: int) -> set[bytes]:  # noqa: ARG002
        """There are no names."""
        return set()


def _spelled(text: str | SpecialToken) -> bytes:
    """Return the bytes that a recogniser reads for a text or a special token."""
    return text.encode() if isinstance(text, str) else special_bytes(text.name)


def _block_of(asked: BareString, grammar: JsonGrammar, missing: frozenset[int]) -> Block:
    """Return the strings that fit, each up to the first end; a greatest length counts separately.

    Results are kept for the whole process, once for all bounds.
    """
    ask = Restriction(grammar.formulas).to(JsonType.STRING, grammar.root)
    rest, high = _without_bound(ask, grammar.formulas)
    counts = high is not None
    block = shared_block(
        ("bare string", asked.end, asked.without, missing, counts, Signatures().of(rest)),
        lambda: _new_block(
            _ended(StringAutomata(grammar.formulas).formula_dfa(rest), asked, missing), counts
        ),
    )
    if block is None:
        raise _empty(grammar)
    if high is None or block.min_remaining is None:
        return block
    # Characters of the end count too.
    bound = high + (len(asked.end) if isinstance(asked.end, str) else 0)
    if int(block.min_remaining[0]) > bound:
        raise _empty(grammar)
    return replace(block, bounds=(0, bound))


def _without_bound(ask: Formula, formulas: Formulas) -> tuple[Formula, int | None]:
    """Return the ask without a greatest length, and that length; ``None`` for no bound."""
    (rest,), (low, high) = without_length(ask, formulas)
    if low:
        # The automaton counts a least length that is left, whatever else is asked.
        rest = formulas.all_of([rest, formulas.leaf(Length(low, None))])
    return rest, high


def _ended(strings: Dfa, asked: BareString, missing: frozenset[int]) -> ByteDfa:
    """Return the strings, each with its end, and with no earlier end in it."""
    if asked.without:
        strings = without_text(asked.without, strings)
    if isinstance(asked.end, str):
        return byte_dfa_from_dfa(up_to_first(asked.end, strings), utf8_sequences, missing)
    # What is read for a special token contains a byte that no text has, so none stands earlier.
    return followed_by(_spelled(asked.end), byte_dfa_from_dfa(strings, utf8_sequences, missing))


def _new_block(content: ByteDfa, counts: bool) -> Block | None:
    """Return the block of strings with their ends; ``None`` if there is none.

    State 0, from which a count begins, is a copy of the automaton's first state, which may be
    entered again.
    """
    if not len(content):
        return None
    table = np.vstack([content.next[:1], content.next])
    table[table != DEAD] += 1
    label = np.concatenate([content.label[:1], content.label])
    whole = ByteDfa(content.byte_class, table, label)
    if not counts:
        return block_of(whole)
    need = code_points_left(content)
    need = np.concatenate([need[:1], need])
    beat = np.full(len(label), INSIDE, dtype=np.int8)
    beat[1 : 1 + content.between] = CODE_POINT_END
    beat[0] = START
    ticks = beat == CODE_POINT_END
    beat[label != DEAD] = CLOSE_STRING
    block = block_of(whole, count_event=beat, min_remaining=need, bounds=(0, None))
    return counting_ways(block, ticks, need, is_firm=True)


def _empty(grammar: JsonGrammar) -> UnsatisfiableError:
    """Return the error for a schema with no string that can stand without quotes."""
    place = grammar.root
    # If the schema is only a reference, its target says more.
    if isinstance(place, SchemaNode) and isinstance(place.formula, SchemaNode):
        place = place.formula
    return UnsatisfiableError(
        "no string satisfies the schema and can be written without the quotes of JSON",
        pointer=place.pointer if isinstance(place, SchemaNode) else "",
        hint="look for bounds that cross, and for listed texts with the end of their own tag",
    )
