"""Rules that get no automaton of their own, because their callers write them out.

Each automaton has a cost: it is made deterministic, minimised, and pasted into others. Most rules
of a large grammar are a handful of parts with one caller, so this saves most of the compile time.
It is decided on the bodies, before anything is built; ``inlining`` decides again, on automata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from guided.grammar.context_free import (
    Alone,
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
)
from guided.grammar.network.rule_expressions import Separated, with_lists
from guided.runtime.fuel import pause_if_due, with_pauses

__all__ = ["RuleParts", "reached_rules", "written_out"]

_MAX_PARTS: Final = 300
"""Parts of a rule that is written out, with all that is written out in it."""
_MAX_DEPTH: Final = 20
"""Rules written out inside each other; ``RuleExpressions.of`` recurses as deep."""
_FEW_PARTS: Final = 12
"""Parts of a rule that is written out in several places."""


class RuleParts(NamedTuple):
    """The parts of the body of a rule, counted."""

    size: int
    """The number of parts, including itself and parts of parts."""
    calls: list[str]
    """The rules that it calls; those in a repeat that copies them occur twice."""


def reached_rules(grammar: ContextFreeGrammar) -> dict[str, RuleParts]:
    """Return the rules that the start rule leads to, itself first, each after one that calls it.

    Rules are numbered in this order, and ``written_out`` relies on it.
    """
    found: dict[str, RuleParts] = {}
    order = {grammar.start: None}
    waiting = [grammar.start]
    for name in waiting:
        found[name] = _parts_of(grammar.rules[name])
        for callee in found[name].calls:
            if callee not in order:
                order[callee] = None
                waiting.append(callee)
    return found


def written_out(grammar: ContextFreeGrammar, reached: Mapping[str, RuleParts]) -> dict[str, Body]:
    """Return the bodies of rules that need no automata: they are written out where called.

    They are small ones that are called from one place, which is no copy of another, and very small
    ones. No rules that are written out call each other in a circle. ``reached`` is in the order of
    ``reached_rules``.
    """
    # By rule: its callers, once for each call, ``None`` for the whole text; what it calls, and how
    # many parts it has, both with what is written out in it.
    callers: dict[str, list[str | None]] = {grammar.start: [None]}
    calls: dict[str, set[str]] = {}
    parts: dict[str, int] = {}
    for caller, made_of in with_pauses(reached.items()):
        parts[caller], calls[caller] = made_of.size, set(made_of.calls)
        for name in made_of.calls:
            callers.setdefault(name, []).append(caller)
    # By rule how many rules are written out in it, one inside another.
    depths = dict.fromkeys(reached, 0)
    undecided = {name for name in reached if len(callers[name]) > 1 and parts[name] <= _FEW_PARTS}
    found: dict[str, Body] = {}
    # In reverse: a rule with one caller is listed after it, so its own callees are decided first.
    for name in reversed([*reached]):
        pause_if_due()
        undecided.discard(name)
        # What is written out in it calls what it calls.
        for callee in with_pauses(calls[name] & found.keys()):
            calls[name] |= calls[callee]
        if parts[name] > _MAX_PARTS or depths[name] > _MAX_DEPTH:
            continue
        # A copy of a rule with several callers has to be very small.
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


def _parts_of(body: Body) -> RuleParts:
    """Count the parts of a body; ``waiting`` contains each with the number of its copies.

    It has to see the same lists as ``RuleExpressions.of`` makes (``with_lists``): each has one copy
    of its item. In other repeats two copies stand for any number of them.
    """
    calls: list[str] = []
    waiting = [(body, 1)]
    for part, copies in with_pauses(waiting):
        match part:
            case Call(rule):
                calls += (rule,) * copies
            case Concatenation(parts):
                for each in with_lists(parts):
                    if isinstance(each, Separated):
                        waiting += ((each.item, copies), (each.between, copies))
                    else:
                        waiting.append((each, copies))
            case Alternation(options):
                waiting += [(each, copies) for each in options]
            case Repetition(item, low, high):
                waiting.append((item, copies if max(low, high or 0) <= 1 else 2))
            case Alone(item):
                waiting.append((item, copies))
    return RuleParts(len(waiting), calls)
