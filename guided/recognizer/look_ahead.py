"""Joints that most documents come to, resolved before anybody waits for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from guided.grammar.assertions import JsonType
from guided.recognizer.contexts import ROOT, ObjectFrame, Pending
from guided.recognizer.json_machine import JsonMachine
from guided.recognizer.labels import DONE, OPEN_ARRAY, OPEN_OBJECT, Key
from guided.recognizer.table import DEAD

__all__ = ["look_ahead"]

_SCALARS = frozenset(JsonType) - {JsonType.OBJECT, JsonType.ARRAY}


def look_ahead(machine: JsonMachine, most: int) -> None:
    """Resolve the first joints of the documents, ``most`` of them, breadth first.

    May raise LimitExceededError, as any joint may; nothing is lost by it.
    """
    waiting = deque((ROOT, label) for label in _labels(machine, ROOT))
    seen = set(waiting)
    while waiting and most:
        at = waiting.popleft()
        behind, row = machine.joint(*at)
        machine.joints.put(*at, behind, row)
        most -= 1
        if row != DEAD:
            ahead = [(behind, label) for label in _labels(machine, behind)]
            waiting += [at for at in ahead if at not in seen]
            seen.update(ahead)


def _labels(machine: JsonMachine, context: int) -> Iterator[int]:
    """The labels that are likely to be taken next in a context."""
    frame = machine.contexts.frames[context]
    if isinstance(frame, ObjectFrame):
        names, _ = machine.evaluation.candidates(context)
        for name in names:
            yield machine.labels.number(Key(name))
    elif isinstance(frame, Pending) and len(frame.asks) == 1:
        types = machine.evaluation.restriction.types(frame.asks[0])
        if JsonType.OBJECT in types:
            yield OPEN_OBJECT
        if JsonType.ARRAY in types:
            yield OPEN_ARRAY
        if context != ROOT and not types.isdisjoint(_SCALARS):
            yield DONE
