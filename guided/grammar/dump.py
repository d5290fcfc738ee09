"""Grammars, automata of rules and networks as text, for people: each stage of compiling one.

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
"""Ranges of a class that are shown: those of letters alone are hundreds."""
_ESCAPED: Final = frozenset('\\"[]()*+?|.{}^$/-')


def dump_grammar(grammar: ContextFreeGrammar) -> str:
    """Return the rules in Lark's notation, start first; ``hole 0`` is another recogniser's text."""
    names = [grammar.start, *(name for name in grammar.rules if name != grammar.start)]
    lines = [f"{name}: {_body(grammar.rules[name])}" for name in names]
    lines += [f"%ignore {_body(terminal)}" for terminal in grammar.ignored]
    return "\n".join(lines)


def dump_automata(automata: RuleAutomata) -> str:
    """Return each rule's moves out of each state: bytes, ``assert 0``, ``call 1`` or ``hole 0``."""
    lines: list[str] = []
    for rule in sorted(automata):
        dfa = automata[rule]
        lines.append(f"rule {rule}:")
        for state, row in enumerate(dfa.next.tolist()):
            moves = [
                f"{what} -> {target}"
                for chars, target in zip(dfa.classes, row, strict=True)
                if target != DEAD
                for what in _symbols(chars)
            ]
            lines.append(_state(state, bool(dfa.accepting[state]), moves))
    return "\n".join(lines)


def dump_network(network: Network) -> str:
    """Return each rule's moves and calls out of each state; for a hole what its texts are like.

    Bytes that lead to the same state are shown as one set. States are numbered as in the network.
    """
    lines = ["the empty text is one, too"] if network.accepts_nothing else []
    first_hole = len(network.starts) - len(network.holes)
    ends = (*network.starts, len(network))[1:]
    for rule, (start, end) in enumerate(zip(network.starts, ends, strict=True)):
        least = f"at least {network.left[start]} byte{'s' * (network.left[start] != 1)}"
        if rule >= first_hole:
            hole = rule - first_hole
            first = _pattern(Chars(_byte_set(network.holes[hole].first)))
            lines.append(f"rule {rule}: hole {hole}, begins with {first}, {least}")
            continue
        lines.append(f"rule {rule}, {least}:")
        for state in range(start, end):
            targets: dict[int, list[int]] = {}
            for byte in range(256):
                target = network.step(state, byte)
                if target != DEAD:
                    targets.setdefault(target, []).append(byte)
            moves = [f"{_pattern(Chars(_byte_set(b)))} -> {to}" for to, b in targets.items()]
            moves += [f"call {edge.rule} -> {edge.target}" for edge in network.calls[state]]
            lines.append(_state(state, bool(network.accepting[state]), moves))
    return "\n".join(lines)


def _state(state: int, is_end: bool, moves: Iterable[str]) -> str:
    return f"  {state}{' (end)' if is_end else ''}: {', '.join(moves)}".rstrip(" :")


def _symbols(chars: CodePoints) -> list[str]:
    bytes_ = numbers_in(chars, Kind.BYTE)
    found = [_pattern(Chars(_byte_set(bytes_)))] if bytes_ else []
    others = [symbol for symbol in symbols_in(chars) if symbol.kind is not Kind.BYTE]
    return found + [f"{_KIND_NAMES[kind]} {number}" for kind, number in others]


def _byte_set(values: Iterable[int]) -> CodePoints:
    return CodePoints.of([(value, value) for value in values])


# --- bodies --------------------------------------------------------------------------------


def _body(body: Body, *, is_part: bool = False) -> str:
    """Return a body; with ``is_part``, in brackets if another body could not contain it bare."""
    match body:
        case Terminal(regular, before, after):
            return "".join([*map(_look, before), _pattern(regular), *map(_look, after)])
        case Hole(number):
            return f"hole {number}"
        case Special(name):
            return f"special {name}"
        case Call(rule):
            return rule
        case Alone(item):
            return f"alone({_body(item)})"
        case Repetition(item, low, high):
            sign = _REPEATS.get((low, high), f" ~ {low}..{'' if high is None else high}")
            return _body(item, is_part=True) + sign
        # The last two cases continue below, as they may need brackets.
        case Concatenation(parts):
            written = " ".join([_body(part, is_part=True) for part in parts]) or "()"
        case Alternation(options):
            written = " | ".join([_body(option) for option in options]) or "nothing"
    is_open = len(body.parts if isinstance(body, Concatenation) else body.options) > 1
    return f"({written})" if is_part and is_open else written


def _look(look: Look) -> str:
    sign = ("?" if look.ahead else "?<") + ("!" if look.negative else "=")
    return f"({sign}{_expression(look.item)})"


# --- patterns ------------------------------------------------------------------------------


def _pattern(regular: Regular) -> str:
    """Return a single text in quotes, else a pattern between slashes, a lone class without."""
    text = _text(regular)
    if text is not None:
        return f'"{text}"'
    written = _expression(regular)
    return written if isinstance(regular, Chars) else f"/{written}/"


def _text(regular: Regular) -> str | None:
    """Return the only text of an expression; ``None`` if it is empty or there are several."""
    parts = regular.parts if isinstance(regular, Concat) else (regular,)
    spelled = [_single(part) for part in parts]
    return None if None in spelled or not parts else "".join(map(str, spelled))


def _single(part: Regular) -> str | None:
    """Return a part as it stands in a text in quotes, ``None`` if it is not a single character."""
    if not isinstance(part, Chars) or len(part.chars.ranges) != 1:
        return None
    low, high = part.chars.ranges[0]
    return _shown(low, '"\\') if low == high else None


def _expression(regular: Regular, *, is_part: bool = False) -> str:
    """Return an expression; with ``is_part``, in brackets if another could not contain it bare."""
    match regular:
        case Chars(chars):
            return _class(chars)
        case Start():
            return "^"
        case End():
            return "$"
        case Look():
            return _look(regular)
        case Graph():
            return f"<graph of {regular.count} states>"
        case Repeat(item, low, high):
            bounds = f"{{{low},{'' if high is None else high}}}"
            return _expression(item, is_part=True) + _REPEATS.get((low, high), bounds)
        case SeparatedRepeat(item, between):
            first, more = _expression(item), _expression(between)
            written = f"{first}({more}{first})*"
        case Intersection(left, right, negative):
            written = f"{_expression(left)} {'&!' if negative else '&'} {_expression(right)}"
        case Concat(parts):
            written = "".join([_expression(part, is_part=not _is_unit(part)) for part in parts])
            return f"({written})" if is_part and len(parts) != 1 else written
        case Alternate(options):
            written = "|".join(map(_expression, options)) or "nothing"
    return f"({written})" if is_part else written


def _is_unit(part: Regular) -> bool:
    """Return whether a concatenation can hold a part without brackets."""
    return not isinstance(part, Alternate | Intersection | SeparatedRepeat)


def _class(chars: CodePoints) -> str:
    """Return a set as a pattern writes it: by what it lacks if it contains the last character."""
    if len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1]:
        return _shown(chars.ranges[0][0])
    if chars.ranges and chars.ranges[-1][1] == MAX_CODE_POINT:
        return f"[^{_ranges((~chars).ranges)}]"
    return f"[{_ranges(chars.ranges)}]"


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Return the inside of a class, at most its first _MOST_RANGES."""
    shown = [
        _shown(low) + (f"-{_shown(high)}" if high > low else "")
        for low, high in ranges[:_MOST_RANGES]
    ]
    return "".join(shown) + ("…" if len(ranges) > _MOST_RANGES else "")


def _shown(code: int, escaped: Iterable[str] = _ESCAPED) -> str:
    character = chr(code)
    if character in escaped:
        return f"\\{character}"
    return character if character.isprintable() and code < 0x7F else ascii(character)[1:-1]
