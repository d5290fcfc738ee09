"""Finds the parts of a schema that no value fits, though the whole has documents."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import FALSE
from guided.json_schema.machine.json_machine import JsonMachine
from guided.runtime.work_budget import limited_work

__all__ = ["empty_parts"]

MAX_WORK: Final = 1_000_000
"""The work for all parts together; those after it is spent are not looked at."""
MAX_PARTS: Final = 100
"""The most parts that are reported."""


def empty_parts(machine: JsonMachine) -> tuple[str, ...]:
    """Return the JSON pointers of the parts that no value fits, innermost, in their order.

    Left out are parts that say so themselves, as ``false`` does, and those where the search gave
    up. The machine grows by what is computed.
    """
    evaluation = machine.evaluation
    found: dict[str, None] = {}
    with suppress(LimitExceededError), limited_work(MAX_WORK, "looking for parts without a value"):
        for node in evaluation.grammar.nodes():
            empty = evaluation.values.innermost_empty(node)
            if empty is not None and empty.formula is not FALSE:
                found[empty.pointer] = None
            if len(found) == MAX_PARTS:
                break
    return tuple(found)
