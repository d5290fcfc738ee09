"""Automata of rules as text, for tests of the passes between a grammar and its network."""

from __future__ import annotations

from guided.grammar.network.rule_automata import RuleAutomata
from guided.grammar.network.symbols import Kind, numbers_in
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD
from guided.regular.expression import Chars
from guided.regular.patterns.printing import format_pattern

__all__ = ["dump_automata"]

_KIND_NAMES = {Kind.ASSERTION: "assert", Kind.CALL: "call", Kind.HOLE: "hole"}


def dump_automata(automata: RuleAutomata) -> str:
    """Return the moves of all states of all rules: bytes, ``assert 0``, ``call 1``, ``hole 0``."""
    lines: list[str] = []
    for rule in sorted(automata):
        dfa = automata[rule]
        lines.append(f"rule {rule}:")
        for state, row in enumerate(dfa.next.tolist()):
            moves = [
                f"{what} -> {target}"
                for chars, target in zip(dfa.classes, row, strict=True)
                if target != DEAD
                for what in _format_symbols(chars)
            ]
            end = " (end)" if dfa.accepting[state] else ""
            lines.append(f"  {state}{end}: {', '.join(moves)}".rstrip(" :"))
    return "\n".join(lines)


def _format_symbols(chars: CodePoints) -> list[str]:
    bytes_ = CodePoints.from_ranges([(byte, byte) for byte in numbers_in(chars, Kind.BYTE)])
    found = [format_pattern(Chars(bytes_))] if bytes_ else []
    others = [
        f"{name} {number}"
        for kind, name in _KIND_NAMES.items()
        for number in numbers_in(chars, kind)
    ]
    return found + others
