"""Which rules of a grammar are reached, and which of them are written out by who calls them."""

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
from guided.network.separated import Separated, with_lists

__all__ = ["reached_rules", "written_out"]

_MAX_PARTS: Final = 300
_MAX_DEPTH: Final = 20
"""Of a rule that is written out with all that is written out in it."""
_FEW_PARTS: Final = 12
"""Of one that is written out in several places."""


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


def written_out(grammar: ContextFreeGrammar, reached: list[str]) -> dict[str, Body]:
    """The bodies of rules that need no automata of their own: they are written out where called.

    Small ones that are called from one place, which is no copy of another, and very small ones.
    """
    callers: dict[str, list[str | None]] = {grammar.start: [None]}
    calls: dict[str, set[str]] = {}
    for caller in reached:
        calls[caller] = set()
        for name in _calls(grammar.rules[caller]):
            callers.setdefault(name, []).append(caller)
            calls[caller].add(name)
    parts = {name: sum(1 for _ in _parts(grammar.rules[name])) for name in reached}
    depths = dict.fromkeys(reached, 0)
    undecided = {name for name in reached if len(callers[name]) > 1 and parts[name] <= _FEW_PARTS}
    found: dict[str, Body] = {}
    # A rule with one caller comes behind it.
    for name in reversed(reached):
        undecided.discard(name)
        for callee in calls[name] & found.keys():
            calls[name] |= calls[callee]
        if parts[name] > _MAX_PARTS or depths[name] > _MAX_DEPTH:
            continue
        if len(callers[name]) > 1 and (
            # No circle of rules may be written out, nor what might yet become one.
            parts[name] > _FEW_PARTS or name in calls[name] or calls[name] & undecided
        ):
            continue
        found[name] = grammar.rules[name]
        for caller_name in callers[name]:
            if caller_name is not None:
                parts[caller_name] += parts[name]
                depths[caller_name] = max(depths[caller_name], depths[name] + 1)
    return found


def _parts(body: Body) -> Iterator[Body]:
    """A body and all that it is made of."""
    waiting = [body]
    for part in waiting:
        yield part
        match part:
            case Sequence(parts):
                for each in with_lists(parts):
                    if isinstance(each, Separated):
                        waiting += (each.item, each.between)
                    else:
                        waiting.append(each)
            case Choice(options):
                waiting += options
            case Times(item) | Alone(item):
                waiting.append(item)


def _calls(body: Body) -> Iterator[str]:
    """The rules that a body calls, those in a repeat that copies them twice."""
    waiting = [(body, 1)]
    for part, copies in waiting:
        match part:
            case Call(rule):
                yield from (rule,) * copies
            case Sequence(parts):
                for each in with_lists(parts):
                    if isinstance(each, Separated):
                        waiting += ((each.item, copies), (each.between, copies))
                    else:
                        waiting.append((each, copies))
            case Choice(options):
                waiting += ((each, copies) for each in options)
            case Times(item, low, high):
                waiting.append((item, copies if max(low, high or 0) <= 1 else 2))
            case Alone(item):
                waiting.append((item, copies))
