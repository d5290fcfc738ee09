"""Finds the parts of a schema that no value fits, though the whole has documents."""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import FALSE, SchemaNode
from guided.json_schema.machine.json_machine import JsonMachine
from guided.runtime.work_budget import limited_work

__all__ = ["empty_parts"]

MAX_WORK: Final = 1_000_000
"""The work for all parts together; those after it is spent are not looked at."""
MAX_PARTS: Final = 100
"""The most parts that are reported."""
MAX_LENGTH: Final = 100_000
"""The most characters of all pointers that are reported."""


def empty_parts(machine: JsonMachine) -> tuple[str, ...]:
    """Return the JSON pointers of the parts that no value fits, innermost, in their order.

    Left out are parts that say so themselves, as ``false`` does, and those where the search gave
    up. The machine grows by what is computed.
    """
    evaluation = machine.evaluation
    empty: dict[str, None] = {}
    unread: list[SchemaNode] = []
    with_values: set[str] = set()
    with suppress(LimitExceededError), limited_work(MAX_WORK, "looking for parts without a value"):
        unread = evaluation.grammar.nodes()[::-1]
        while unread:
            node = unread[-1]
            found = evaluation.values.innermost_empty(node)
            if found is None:
                with_values.add(node.pointer)
            # Of others, the part inside is a node of its own.
            elif found is node and node.formula is not FALSE:
                empty[node.pointer] = None
            unread.pop()
    # A part that is read in several dynamic scopes has a node in each.
    with_values.update(node.pointer for node in unread)
    pointers = [pointer for pointer in empty if pointer not in with_values]
    lengths = accumulate(map(len, pointers))
    return tuple(pointers[: min(MAX_PARTS, sum(length <= MAX_LENGTH for length in lengths))])
