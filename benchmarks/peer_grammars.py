"""Prints grammars for peers: in xgrammar's EBNF, and in llguidance's dialect of Lark.

Neither supports look-around, which is left out: names may then be key words, so the peers do less.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import NamedTuple, TypeGuard

from guided.grammar.context_free import (
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
    Terminal,
)
from guided.regular.codepoints import CodePoints
from guided.regular.expression import Alternate, Chars, Concat, Look, Regular, Repeat

__all__ = ["ebnf_of", "llguidance_lark_of"]


def ebnf_of(grammar: ContextFreeGrammar) -> str:
    """Return the grammar as xgrammar reads it, with the start rule ``root``."""
    names = {rule: f"r{number}" for number, rule in enumerate(grammar.rules)}
    blank = ""
    lines: list[str] = []
    if grammar.ignored:
        blank = "blank "
        # (x+)* -> x*, which is not ambiguous
        kept = (
            each.item if isinstance(each, Repeat) else each for each in map(_plain, grammar.ignored)
        )
        lines.append(f"blank ::= ({_regular(Alternate(tuple(kept)), _EBNF)})*")

    def terminal(regular: Regular) -> str:
        return blank + _regular(regular, _EBNF)

    lines.insert(0, f"root ::= {names[grammar.start]} {blank}")
    lines += [f"{names[rule]} ::= {_body(b, names, terminal)}" for rule, b in grammar.rules.items()]
    return "\n".join(lines)


def llguidance_lark_of(grammar: ContextFreeGrammar) -> str:
    """Return the grammar as llguidance reads it."""
    names = {rule: f"r{number}" for number, rule in enumerate(grammar.rules)}
    terminals: dict[str, str] = {}

    def terminal(regular: Regular) -> str:
        pattern = _regular(regular, _PATTERN)
        return terminals.setdefault(pattern, f"T{len(terminals)}")

    lines = [f"start: {names[grammar.start]}"]
    lines += [f"{names[rule]}: {_body(b, names, terminal)}" for rule, b in grammar.rules.items()]
    ignored = [terminal(_plain(each)) for each in grammar.ignored]
    lines += [f"{name}: /{pattern}/" for pattern, name in terminals.items()]
    lines += [f"%ignore {name}" for name in ignored]
    return "\n".join(lines)


def _body(body: Body, names: dict[str, str], terminal: Callable[[Regular], str]) -> str:
    match body:
        case Terminal():
            return f"({terminal(_plain(body))})"
        case Call(rule):
            return names[rule]
        case Concatenation(parts):
            return f"({' '.join(_body(part, names, terminal) for part in parts)})"
        case Alternation(options):
            return f"({' | '.join(_body(option, names, terminal) for option in options)})"
        case Repetition(item, low, high):
            return f"({_body(item, names, terminal)}){_times(low, high)}"


def _plain(terminal: Terminal) -> Regular:
    assert not [*terminal.before, *terminal.after], "no peer looks around terminals"
    return terminal.regular


class _Format(NamedTuple):
    """How a format writes a text, a character of a set, and a sequence of parts."""

    text: Callable[[str], str]
    chars: Callable[[CodePoints], str]
    between: str


def _regular(regular: Regular, form: _Format) -> str:
    match regular:
        case Chars(members):
            return form.text(chr(members.ranges[0][0])) if _is_one(regular) else form.chars(members)
        case Concat(parts):
            kept = [part for part in parts if not isinstance(part, Look)]
            groups = itertools.groupby(kept, _is_one)
            written = [
                form.text("".join(chr(one.chars.ranges[0][0]) for one in group))
                if is_text
                else form.between.join(_regular(part, form) for part in group)
                for is_text, group in groups
            ]
            return form.between.join(written)
        case Alternate(options):
            return f"({'|'.join(_regular(option, form) for option in options)})"
        case Repeat(item, low, high):
            return f"({_regular(item, form)}){_times(low, high)}"
    raise ValueError(f"{regular} has no place in a peer's grammar")


def _is_one(regular: Regular) -> TypeGuard[Chars]:
    return isinstance(regular, Chars) and sum(b - a + 1 for a, b in regular.chars.ranges) == 1


def _times(low: int, high: int | None) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return signs.get((low, high), f"{{{low},{'' if high is None else high}}}")


def _ebnf_chars(chars: CodePoints) -> str:
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in chars.ranges) + "]"


def _pattern_chars(chars: CodePoints) -> str:
    ranges = (f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in chars.ranges)
    return "[" + "".join(ranges) + "]"


_EBNF = _Format(lambda text: json.dumps(text), _ebnf_chars, " ")
_PATTERN = _Format(
    lambda text: "".join(f"\\x{{{ord(each):x}}}" for each in text), _pattern_chars, ""
)
