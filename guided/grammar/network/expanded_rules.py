"""Chooses rules that get no automaton, as their bodies are expanded where they are called.

Each automaton costs time: it is made deterministic, minimised, and copied into others. Most rules
of a large grammar are a few parts with one caller, so this saves most of the compile time. The
choice is made on the bodies, before any automaton is built; ``inlining`` works on automata later.
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
from guided.grammar.network.rule_expressions import SeparatedRepetition, merge_separated
from guided.runtime.work_budget import pause_if_due, with_pauses

__all__ = ["RuleParts", "choose_expanded_rules", "reachable_rules"]

_MAX_PARTS: Final = 300
"""The most parts of an expanded rule, with the rules expanded in it."""
_MAX_DEPTH: Final = 20
"""How deep expansions may nest; ``RuleExpressions.build`` recurses as deep."""
_FEW_PARTS: Final = 12
"""The most parts of a rule that is expanded in several places."""


class RuleParts(NamedTuple):
    """The size of a rule's body, and its calls."""

    size: int
    """The number of nodes of the body's tree."""
    calls: list[str]
    """The rules that it calls; twice for a call in a repeat that copies its item."""


def reachable_rules(grammar: ContextFreeGrammar) -> dict[str, RuleParts]:
    """Return the rules reachable from the start rule, itself first, in breadth-first order.

    So each comes after a rule that calls it. Rules are numbered in this order, and
    ``choose_expanded_rules`` relies on it.
    """
    found: dict[str, RuleParts] = {}
    order = {grammar.start: None}
    worklist = [grammar.start]
    for name in worklist:
        found[name] = _count_parts(grammar.rules[name])
        for callee in found[name].calls:
            if callee not in order:
                order[callee] = None
                worklist.append(callee)
    return found


def choose_expanded_rules(
    grammar: ContextFreeGrammar, reached: Mapping[str, RuleParts]
) -> dict[str, Body]:
    """Return the bodies of the rules to expand where they are called.

    These are small rules with a single call that is not copied, and very small rules. No expanded
    rules call each other in a cycle. ``reached`` is in the order of ``reachable_rules``.
    """
    # By rule: its callers, once per call, ``None`` for the whole text; what it calls, and how many
    # parts it has, both with the rules expanded in it.
    callers: dict[str, list[str | None]] = {grammar.start: [None]}
    calls: dict[str, set[str]] = {}
    parts: dict[str, int] = {}
    for caller, rule_parts in with_pauses(reached.items()):
        parts[caller], calls[caller] = rule_parts.size, set(rule_parts.calls)
        for name in rule_parts.calls:
            callers.setdefault(name, []).append(caller)
    # By rule how deep expansions nest in it.
    depths = dict.fromkeys(reached, 0)
    undecided = {name for name in reached if len(callers[name]) > 1 and parts[name] <= _FEW_PARTS}
    found: dict[str, Body] = {}
    # In reverse, so that callees mostly come before their callers.
    for name in reversed([*reached]):
        pause_if_due()
        undecided.discard(name)
        # The calls of rules expanded in it are its own.
        for callee in with_pauses(calls[name] & found.keys()):
            calls[name] |= calls[callee]
        if parts[name] > _MAX_PARTS or depths[name] > _MAX_DEPTH:
            continue
        if len(callers[name]) > 1:
            if parts[name] > _FEW_PARTS:
                continue
            # Neither a cycle of rules may be expanded, nor what might still become one. Each cycle
            # has a rule with several callers, as it is entered from outside: others need no check.
            if name in calls[name] or calls[name] & undecided:
                continue
        found[name] = grammar.rules[name]
        for caller_name in callers[name]:
            if caller_name is not None:
                parts[caller_name] += parts[name]
                depths[caller_name] = max(depths[caller_name], depths[name] + 1)
    return found


def _count_parts(body: Body) -> RuleParts:
    """Count the parts of a body, and list its calls.

    ``worklist`` has each part with its number of copies, where 2 means several. Separated
    repetitions are found as in ``RuleExpressions.build``: they have one copy of the item.
    """
    calls: list[str] = []
    worklist = [(body, 1)]
    for part, copies in with_pauses(worklist):
        match part:
            case Call(rule):
                calls += (rule,) * copies
            case Concatenation(parts):
                for each in merge_separated(parts):
                    if isinstance(each, SeparatedRepetition):
                        worklist += ((each.item, copies), (each.between, copies))
                    else:
                        worklist.append((each, copies))
            case Alternation(options):
                worklist += [(each, copies) for each in options]
            case Repetition(item, low, high):
                worklist.append((item, copies if max(low, high or 0) <= 1 else 2))
            case Alone(item):
                worklist.append((item, copies))
    return RuleParts(len(worklist), calls)
