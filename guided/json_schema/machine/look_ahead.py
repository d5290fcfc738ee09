"""Resolves the first transitions of a document that follows its schema, while compiling.

What a recogniser computes when a text first reaches a state delays the token that leads there. Most
documents begin as their schema does, so some of that is computed in advance, within ``_WORK``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from guided.errors import LimitExceededError
from guided.json_schema.machine.exit_actions import DONE, ITEM, OPEN_ARRAY, OPEN_OBJECT
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.machine.stacks import ROOT, AwaitedValue, ObjectFrame
from guided.machine.stack_transitions import NEEDS_EXACT_STATE
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import limited_work

__all__ = ["look_ahead"]

_TRANSITIONS: Final = 10
"""About as many, since all of a stack are resolved; what none and twice as many cost is in decision
14."""
_WORK: Final = 500
_COLON: Final = ord(":")
_SCALARS: Final = frozenset(b'"-0123456789tfn')
_ORDER: Final = (OPEN_OBJECT, OPEN_ARRAY, DONE)
"""Exit actions in the order in which they are followed; others come after these, ITEM last. In an
object the first name comes before all."""


def look_ahead(machine: JsonMachine) -> None:
    """Resolve transitions of a machine, as far as that takes little work.

    It must be new: no transition may be added twice (``StackTransitions.put``).
    """
    with suppress(LimitExceededError), limited_work(_WORK, "looking ahead"):
        _follow(machine)


def _follow(machine: JsonMachine) -> None:
    """Resolve the transitions of each stack along one path, which takes the first of each stack.

    The path ends where a stack comes again, or where a transition must not be taken or depends on a
    text (both have the row DEAD).
    """
    stack, row, seen = machine.start.stack, machine.start.row, set[int]()
    while len(machine.parts.transitions) < _TRANSITIONS and row != DEAD and stack not in seen:
        seen.add(stack)
        ahead: tuple[int, int] | None = None
        for label in _labels(machine, stack, row):
            transition = machine.transition(stack, label)
            machine.parts.transitions.put(stack, label, *transition)
            ahead = ahead or transition
        if ahead is None or ahead[0] == NEEDS_EXACT_STATE:
            return
        stack, row = ahead


def _labels(machine: JsonMachine, stack: int, row: int) -> list[int]:
    """Return some of the exit actions that may follow, in order, each once.

    ``stack`` and ``row`` are what a transition led to: the row is before a value (or the colon
    before it), before a member, or after an item. Brackets and commas leave after one byte. Names
    and scalars take more, so the first name stands for names, and DONE for scalars. An action that
    is missing is resolved when a text gets there, and one too many costs time only.
    """
    table, frame = machine.table, machine.stacks.frames[stack]
    if isinstance(frame, AwaitedValue):
        # After a name a colon comes first.
        value = table.step(row, _COLON)
        row = row if value == DEAD else value
    edges = table.edges(row)
    after = [target for target in edges.values() if table.exits[target]]
    labels = dict.fromkeys(int(table.label[target]) for target in after)
    if isinstance(frame, ObjectFrame):
        names, _ = machine.evaluation.names.candidates(stack)
        return [*map(machine.exit_actions.action_of_key, names[:1]), *labels]
    # DONE has the truth vector 1. After the whole document nothing follows, so ROOT needs none.
    is_scalar = isinstance(frame, AwaitedValue) and not _SCALARS.isdisjoint(edges)
    if is_scalar and stack != ROOT and machine.evaluation.value_stacks.accepts(stack, 1):
        labels[DONE] = None
    return sorted(labels, key=_rank)


def _rank(label: int) -> int:
    """Return the rank of an action in the order in which they are followed."""
    return _ORDER.index(label) if label in _ORDER else len(_ORDER) + (label == ITEM)
