"""Prints grammars, automata of rules and networks: each stage of compiling a grammar.

``guided inspect --grammar FILE --dump`` prints the first and the last of them::

    start: start "+" NUMBER | NUMBER              the context-free form
    rule 0: [0-9] -> 1 ...                        the automata, in between
    rule 0, 2 states, at least 1 byte ...         the network
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

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
from guided.grammar.network.rule_automata import RuleAutomata
from guided.grammar.network.symbols import Kind, numbers_in, symbols_in
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.dfa import DEAD
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Intersection,
    Look,
    Regular,
    Repeat,
    SeparatedRepeat,
    Start,
)

__all__ = ["dump_automata", "dump_grammar", "dump_network"]

_REPEATS: Final = {(0, None): "*", (1, None): "+", (0, 1): "?"}
_KIND_NAMES: Final = {Kind.ASSERTION: "assert", Kind.CALL: "call", Kind.HOLE: "hole"}
_MOST_RANGES: Final = 12
"""Ranges of a character class that are printed; the letters of Unicode alone are hundreds."""
_ESCAPED: Final = frozenset('\\"[]()*+?|.{}^$/-')


def dump_grammar(grammar: ContextFreeGrammar) -> str:
    """Return the rules in Lark's notation, start first; ``hole 0`` is one of another recogniser."""
    names = [grammar.start, *(name for name in grammar.rules if name != grammar.start)]
    lines = [f"{name}: {_format_body(grammar.rules[name])}" for name in names]
    lines += [f"%ignore {_format_body(terminal)}" for terminal in grammar.ignored]
    return "\n".join(lines)


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
            lines.append(_format_state(state, bool(dfa.accepting[state]), moves))
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
            first = _format_pattern(Chars(_byte_set(network.holes[hole].first)))
            lines.append(f"rule {rule}: hole {hole}, begins with {first}, {least}")
            continue
        lines.append(f"rule {rule}, {least}:")
        for state in range(start, end):
            targets: dict[int, list[int]] = {}
            for byte in range(256):
                target = network.step(state, byte)
                if target != DEAD:
                    targets.setdefault(target, []).append(byte)
            moves = [f"{_format_pattern(Chars(_byte_set(b)))} -> {to}" for to, b in targets.items()]
            moves += [f"call {edge.rule} -> {edge.target}" for edge in network.calls[state]]
            lines.append(_format_state(state, bool(network.accepting[state]), moves))
    return "\n".join(lines)


def _format_state(state: int, is_end: bool, moves: Iterable[str]) -> str:
    return f"  {state}{' (end)' if is_end else ''}: {', '.join(moves)}".rstrip(" :")


def _format_symbols(chars: CodePoints) -> list[str]:
    bytes_ = numbers_in(chars, Kind.BYTE)
    found = [_format_pattern(Chars(_byte_set(bytes_)))] if bytes_ else []
    others = [symbol for symbol in symbols_in(chars) if symbol.kind is not Kind.BYTE]
    return found + [f"{_KIND_NAMES[kind]} {number}" for kind, number in others]


def _byte_set(values: Iterable[int]) -> CodePoints:
    return CodePoints.from_ranges([(value, value) for value in values])


# --- bodies --------------------------------------------------------------------------------


def _format_body(body: Body, *, is_part: bool = False) -> str:
    """Print a body; with ``is_part``, in brackets where it is ambiguous inside another body."""
    match body:
        case Terminal(regular, before, after):
            return "".join(
                [*map(_format_look, before), _format_pattern(regular), *map(_format_look, after)]
            )
        case Hole(number):
            return f"hole {number}"
        case Special(name):
            return f"special {name}"
        case Call(rule):
            return rule
        case Alone(item):
            return f"alone({_format_body(item)})"
        case Repetition(item, low, high):
            sign = _REPEATS.get((low, high), f" ~ {low}..{'' if high is None else high}")
            return _format_body(item, is_part=True) + sign
        # The last two cases continue below, as they may need brackets.
        case Concatenation(parts):
            formatted = " ".join([_format_body(part, is_part=True) for part in parts]) or "()"
        case Alternation(options):
            formatted = " | ".join([_format_body(option) for option in options]) or "nothing"
    is_open = len(body.parts if isinstance(body, Concatenation) else body.options) > 1
    return f"({formatted})" if is_part and is_open else formatted


def _format_look(look: Look) -> str:
    sign = ("?" if look.ahead else "?<") + ("!" if look.negative else "=")
    return f"({sign}{_format_expression(look.item)})"


# --- patterns ------------------------------------------------------------------------------


def _format_pattern(regular: Regular) -> str:
    """Print a single text in quotes, a character class bare, and other patterns in slashes."""
    text = _only_text(regular)
    if text is not None:
        return f'"{text}"'
    formatted = _format_expression(regular)
    return formatted if isinstance(regular, Chars) else f"/{formatted}/"


def _only_text(regular: Regular) -> str | None:
    """Return the only text of an expression, escaped; ``None`` if it is empty or one of several."""
    parts = regular.parts if isinstance(regular, Concat) else (regular,)
    spelled = [_only_character(part) for part in parts]
    return None if None in spelled or not parts else "".join(map(str, spelled))


def _only_character(part: Regular) -> str | None:
    """Return the only character of an expression, escaped; ``None`` if it has several."""
    if not isinstance(part, Chars) or len(part.chars.ranges) != 1:
        return None
    low, high = part.chars.ranges[0]
    return _format_character(low, '"\\') if low == high else None


def _format_expression(regular: Regular, *, is_part: bool = False) -> str:
    """Print an expression; with ``is_part``, in brackets where it is ambiguous in another one."""
    match regular:
        case Chars(chars):
            return _format_class(chars)
        case Start():
            return "^"
        case End():
            return "$"
        case Look():
            return _format_look(regular)
        case Graph():
            return f"<graph of {regular.count} states>"
        case Repeat(item, low, high):
            bounds = f"{{{low},{'' if high is None else high}}}"
            return _format_expression(item, is_part=True) + _REPEATS.get((low, high), bounds)
        case SeparatedRepeat(item, between):
            first, more = _format_expression(item), _format_expression(between)
            formatted = f"{first}({more}{first})*"
        case Intersection(left, right, negative):
            first, second = _format_expression(left), _format_expression(right)
            formatted = f"{first} {'&!' if negative else '&'} {second}"
        case Concat(parts):
            formatted = "".join(
                [_format_expression(part, is_part=not _needs_no_brackets(part)) for part in parts]
            )
            return f"({formatted})" if is_part and len(parts) != 1 else formatted
        case Alternate(options):
            formatted = "|".join(map(_format_expression, options)) or "nothing"
    return f"({formatted})" if is_part else formatted


def _needs_no_brackets(part: Regular) -> bool:
    """Return whether a part of a concatenation is unambiguous without brackets."""
    return not isinstance(part, Alternate | Intersection | SeparatedRepeat)


def _format_class(chars: CodePoints) -> str:
    """Print a set of characters; negated, as ``[^…]``, if it contains the last code point."""
    if len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1]:
        return _format_character(chars.ranges[0][0])
    if chars.ranges and chars.ranges[-1][1] == MAX_CODE_POINT:
        return f"[^{_format_ranges((~chars).ranges)}]"
    return f"[{_format_ranges(chars.ranges)}]"


def _format_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Print the ranges of a character class, at most the first _MOST_RANGES."""
    shown = [
        _format_character(low) + (f"-{_format_character(high)}" if high > low else "")
        for low, high in ranges[:_MOST_RANGES]
    ]
    return "".join(shown) + ("…" if len(ranges) > _MOST_RANGES else "")


def _format_character(code: int, escaped: Iterable[str] = _ESCAPED) -> str:
    character = chr(code)
    if character in escaped:
        return f"\\{character}"
    return character if character.isprintable() and code < 0x7F else ascii(character)[1:-1]
