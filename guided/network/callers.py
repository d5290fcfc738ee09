"""Which rules of a grammar are reached, and which have but one place that calls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from guided.grammar.context_free import (
    Alone,
    Body,
    Call,
    Choice,
    ContextFreeGrammar,
    Sequence,
    Times,
)

__all__ = ["called_once", "reached_rules"]

_MAX_PARTS: Final = 300
_MAX_DEPTH: Final = 20
"""Of a rule that is written out with all that is written out in it."""


def reached_rules(grammar: ContextFreeGrammar) -> list[str]:
    """The rules that the start rule leads to, itself first, each behind one that calls it."""
    order = {grammar.start: None}
    waiting = [grammar.start]
    for name in waiting:
        for part in _parts(grammar.rules[name]):
            if isinstance(part, Call) and part.rule not in order:
                order[part.rule] = None
                waiting.append(part.rule)
    return waiting


def called_once(grammar: ContextFreeGrammar, reached: list[str]) -> dict[str, Body]:
    """The bodies of small rules that are called from one place, which is no copy of another.

    Written out there, they need no automata of their own.
    """
    callers: dict[str, list[str | None]] = {grammar.start: [None]}
    for caller in reached:
        for name in _calls(grammar.rules[caller]):
            callers.setdefault(name, []).append(caller)
    once: dict[str, Body] = {}
    parts = dict.fromkeys(reached, 0)
    depths = dict.fromkeys(reached, 0)
    # A rule with one caller comes behind it.
    for name in reversed(reached):
        parts[name] += sum(1 for _ in _parts(grammar.rules[name]))
        if len(callers[name]) > 1 or parts[name] > _MAX_PARTS or depths[name] > _MAX_DEPTH:
            continue
        once[name] = grammar.rules[name]
        (caller_name,) = callers[name]
        if caller_name is not None:
            parts[caller_name] += parts[name]
            depths[caller_name] = max(depths[caller_name], depths[name] + 1)
    return once


def _parts(body: Body) -> Iterator[Body]:
    """A body and all that it is made of."""
    waiting = [body]
    for part in waiting:
        yield part
        match part:
            case Sequence(parts) | Choice(parts):
                waiting += parts
            case Times(item) | Alone(item):
                waiting.append(item)


def _calls(body: Body) -> Iterator[str]:
    """The rules that a body calls, those in a repeat that copies them twice."""
    waiting = [(body, 1)]
    for part, copies in waiting:
        match part:
            case Call(rule):
                yield from (rule,) * copies
            case Sequence(parts) | Choice(parts):
                waiting += ((each, copies) for each in parts)
            case Times(item, low, high):
                waiting.append((item, copies if max(low, high or 0) <= 1 else 2))
            case Alone(item):
                waiting.append((item, copies))
