"""The recogniser of a schema's strings without quotes, between texts or special tokens.

::

    begin ──▶ string, code points counted ──▶ end
              one automaton: both, up to the first end
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

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
    limit_path_code_points,
    min_remaining_code_points,
    split_length_bounds,
)
from guided.machine.block import (
    CLOSE_STRING,
    CODE_POINT_END,
    INSIDE,
    START,
    STOP,
    Block,
    make_block,
)
from guided.machine.parts import MachineParts
from guided.machine.recognizer import Recognizer, State
from guided.machine.special_bytes import special_bytes
from guided.machine.stack_table import StackTable
from guided.machine.table import END_ROW, TransitionTable
from guided.regular.byte_dfa import ByteDfa, append_bytes, byte_dfa_from_dfa
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import literal, texts_up_to, texts_without
from guided.regular.utf8 import utf8_sequences
from guided.spec.bare_string import BareString
from guided.spec.special_token import SpecialToken

__all__ = ["BareStringMachine"]

_END: Final = State(ROOT, END_ROW)


class BareStringMachine(Recognizer):
    """Recognises the strings of ``spec``, byte by byte; ``grammar`` is made from its schema.

    ``unavailable_bytes`` are those without a token; ``table`` is shared with the other machines of
    the constraint. Raises UnsatisfiableError if no string is left, and LimitExceededError past the
    limit of the table.
    """

    def __init__(
        self,
        spec: BareString,
        grammar: JsonGrammar,
        unavailable_bytes: frozenset[int],
        table: TransitionTable,
    ) -> None:
        # The hint is not shown: only the machine around this one checks its room.
        parts = MachineParts(table, StackTable([None]), [], "lower the bounds on the length")
        super().__init__(parts)
        if not table.num_rows:
            table.add_row({})  # END_ROW
        # A special token needs no tokens for its bytes; ``check_special_tokens`` looks for it
        # later.
        for tag in (spec.begin, spec.end):
            if isinstance(tag, str) and not unavailable_bytes.isdisjoint(tag.encode()):
                raise UnsatisfiableError(
                    f"{tag!r:.80}, next to a string without quotes, needs bytes for which the "
                    "model has no token",
                    hint="use a model whose tokenizer covers all bytes, or another tag",
                )
        row = table.add_block(_build_block(spec, grammar, unavailable_bytes), {0: DONE})
        for byte in reversed(_encode(spec.begin)):
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

    def _enter_row(self, before: State, row: int, byte: int) -> State | None:  # noqa: ARG002
        """Return the state after a byte that leads to a row, ``None`` if a string gets too long."""
        # At the end no count is left to check: the least one is 0 (``_build_block``).
        if self.table.label[row] != DEAD:
            return _END
        count = self._update_count(row, before.count)
        return None if count is None else State(ROOT, row, count)

    def bytes_left(self, state: State) -> int:
        """Return the length of ``shortest_completion``."""
        return int(self.table.distance[state.row])

    def shortest_completion(self, state: State) -> bytes:
        """Return bytes that complete the text, with no more code points than a bound allows."""
        text, row = bytearray(), state.row
        while (byte := int(self.table.next_byte[row])) != STOP:
            text.append(byte)
            row = self.table.step(row, byte)
        return bytes(text)


def _encode(text: str | SpecialToken) -> bytes:
    """Return the bytes that a recogniser reads for a text or a special token."""
    return text.encode() if isinstance(text, str) else special_bytes(text.name)


def _build_block(
    spec: BareString, grammar: JsonGrammar, unavailable_bytes: frozenset[int]
) -> Block:
    """Return the block of the strings that fit, each with its end.

    A greatest length is counted outside the automaton, which is shared by all such bounds.
    """
    formula = Restriction(grammar.formulas).to_type(JsonType.STRING, grammar.root)
    rest, high = _split_max_length(formula, grammar.formulas)
    counts_code_points = high is not None
    block = shared_block(
        (
            "bare string",
            spec.end,
            spec.without,
            unavailable_bytes,
            counts_code_points,
            Signatures().of(rest),
        ),
        lambda: _make_block(
            _append_end(
                StringAutomata(grammar.formulas).formula_dfa(rest), spec, unavailable_bytes
            ),
            counts_code_points,
        ),
    )
    if block is None:
        raise _empty_error(grammar)
    if high is None or block.min_remaining is None:
        return block
    # The code points of an end that is text are counted too.
    bound = high + (len(spec.end) if isinstance(spec.end, str) else 0)
    if int(block.min_remaining[0]) > bound:
        raise _empty_error(grammar)
    return replace(block, bounds=(0, bound))


def _split_max_length(formula: Formula, formulas: Formulas) -> tuple[Formula, int | None]:
    """Split the upper bound on the length off a formula; it is ``None`` for no bound."""
    (rest,), (low, high) = split_length_bounds(formula, formulas)
    if low:
        # The automaton itself counts a least length.
        rest = formulas.all_of([rest, formulas.leaf(Length(low, None))])
    return rest, high


def _append_end(strings: Dfa, spec: BareString, unavailable_bytes: frozenset[int]) -> ByteDfa:
    """Return the automaton of the strings followed by the end, which does not occur earlier.

    Strings with ``spec.without`` in them, or with unavailable bytes, are left out.
    """
    if spec.without:
        without = texts_without(literal(spec.without), strings.to_regular())
        strings = dfa_from_regular(without)
    if isinstance(spec.end, str):
        end = literal(spec.end)
        ended = dfa_from_regular(texts_up_to(end, end, strings.to_regular()))
        return byte_dfa_from_dfa(ended, utf8_sequences, unavailable_bytes)
    # What is read for a special token contains a byte that no text has, so none stands earlier.
    return append_bytes(
        _encode(spec.end), byte_dfa_from_dfa(strings, utf8_sequences, unavailable_bytes)
    )


def _make_block(automaton: ByteDfa, counts_code_points: bool) -> Block | None:
    """Return the block of an automaton of strings with their end; ``None`` if it is empty.

    If ``counts_code_points``, entering a row also counts. State 0, where the count starts, is a
    copy of the automaton's first state, which loops may enter again.
    """
    if not len(automaton):
        return None
    table = np.vstack([automaton.next[:1], automaton.next])
    table[table != DEAD] += 1
    label = np.concatenate([automaton.label[:1], automaton.label])
    copied = ByteDfa(automaton.byte_class, table, label)
    if not counts_code_points:
        return make_block(copied)
    min_remaining = min_remaining_code_points(automaton)
    min_remaining = np.concatenate([min_remaining[:1], min_remaining])
    count_event = np.full(len(label), INSIDE, dtype=np.int8)
    # The states between two code points come first in ``automaton``.
    count_event[1 : 1 + automaton.num_boundary_states] = CODE_POINT_END
    count_event[0] = START
    # The last character of the end is a code point too, so this comes before the next assignment.
    completes = count_event == CODE_POINT_END
    # Where the end was read: there is no quote that closes the string, but it ends here.
    count_event[label != DEAD] = CLOSE_STRING
    block = make_block(
        copied, count_event=count_event, min_remaining=min_remaining, bounds=(0, None)
    )
    return limit_path_code_points(block, completes, min_remaining, is_schema_bound=True)


def _empty_error(grammar: JsonGrammar) -> UnsatisfiableError:
    """Return the error for a schema with no string that can stand without quotes."""
    node = grammar.root
    # If the schema is only a reference, its target says more.
    if isinstance(node, SchemaNode) and isinstance(node.formula, SchemaNode):
        node = node.formula
    return UnsatisfiableError(
        "no string satisfies the schema and can be written without the quotes of JSON",
        pointer=node.pointer if isinstance(node, SchemaNode) else "",
        hint="look for bounds that cross, and for listed texts with the end of their own tag",
    )
