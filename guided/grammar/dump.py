"""Prints grammars and networks: the first and the last stage of compiling a grammar.

``guided inspect --grammar FILE --dump`` prints both::

    start: start "+" NUMBER | NUMBER              the context-free form
    rule 0, at least 1 byte: ...                  the network
"""

from __future__ import annotations

from collections.abc import Iterable

from guided.grammar.context_free import (
    Alone,
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Hole,
    Repetition,
    Special,
    Terminal,
)
from guided.grammar.network.network import Network
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD
from guided.regular.expression import Chars
from guided.regular.patterns.printing import REPEATS, format_expression, format_pattern

__all__ = ["dump_grammar", "dump_network"]


def dump_grammar(grammar: ContextFreeGrammar) -> str:
    """Return the rules in Lark's notation, start first; ``hole 0`` is one of another recogniser."""
    names = [grammar.start, *(name for name in grammar.rules if name != grammar.start)]
    lines = [f"{name}: {_format_body(grammar.rules[name])}" for name in names]
    lines += [f"%ignore {_format_body(terminal)}" for terminal in grammar.ignored]
    return "\n".join(lines)


def dump_network(network: Network) -> str:
    """Return the moves and calls out of each state of each rule; for a hole what is known of it.

    Bytes that lead to the same state are printed as one set. States are numbered as in the network.
    """
    lines = ["the empty text is one, too"] if network.accepts_empty else []
    first_hole = len(network.starts) - len(network.holes)
    ends = (*network.starts, len(network))[1:]
    for rule, (start, end) in enumerate(zip(network.starts, ends, strict=True)):
        least = f"at least {network.distance[start]} byte{'s' * (network.distance[start] != 1)}"
        if rule >= first_hole:
            hole = rule - first_hole
            first = format_pattern(Chars(_byte_set(network.holes[hole].first)))
            lines.append(f"rule {rule}: hole {hole}, begins with {first}, {least}")
            continue
        lines.append(f"rule {rule}, {least}:")
        for state in range(start, end):
            targets: dict[int, list[int]] = {}
            for byte in range(256):
                target = network.step(state, byte)
                if target != DEAD:
                    targets.setdefault(target, []).append(byte)
            moves = [f"{format_pattern(Chars(_byte_set(b)))} -> {to}" for to, b in targets.items()]
            moves += [f"call {edge.rule} -> {edge.target}" for edge in network.calls[state]]
            lines.append(_format_state(state, bool(network.accepting[state]), moves))
    return "\n".join(lines)


def _format_state(state: int, is_end: bool, moves: Iterable[str]) -> str:
    return f"  {state}{' (end)' if is_end else ''}: {', '.join(moves)}".rstrip(" :")


def _byte_set(values: Iterable[int]) -> CodePoints:
    return CodePoints.from_ranges([(value, value) for value in values])


# --- bodies --------------------------------------------------------------------------------


def _format_body(body: Body, *, is_part: bool = False) -> str:
    """Print a body; with ``is_part``, in brackets where it is ambiguous inside another body."""
    match body:
        case Terminal(regular, before, after):
            first, last = ("".join(map(format_expression, looks)) for looks in (before, after))
            return f"{first}{format_pattern(regular)}{last}"
        case Hole(number):
            return f"hole {number}"
        case Special(name):
            return f"special {name}"
        case Call(rule):
            return rule
        case Alone(item):
            return f"alone({_format_body(item)})"
        case Repetition(item, low, high):
            sign = REPEATS.get((low, high), f" ~ {low}..{'' if high is None else high}")
            return _format_body(item, is_part=True) + sign
        # The last two cases continue below, as they may need brackets.
        case Concatenation(parts):
            formatted = " ".join([_format_body(part, is_part=True) for part in parts]) or "()"
        case Alternation(options):
            formatted = " | ".join([_format_body(option) for option in options]) or "nothing"
    is_open = len(body.parts if isinstance(body, Concatenation) else body.options) > 1
    return f"({formatted})" if is_part and is_open else formatted
