"""The intermediate form of a JSON constraint as text, for people and for golden tests.

One paragraph for each schema node: its index, its JSON pointer, and its formula below it.

    #0 (root)
        all of
            is object
            members
                "next": #1
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from guided.json_schema.formulas.assertions import (
    Assertion,
    Booleans,
    Bound,
    Contains,
    HasMember,
    ItemCount,
    Items,
    JsonType,
    Length,
    Matches,
    MemberCount,
    Members,
    Names,
    NumberChoices,
    Numbers,
    StringChoices,
    Types,
    Unique,
)
from guided.json_schema.formulas.formula import (
    AllOf,
    AnyOf,
    Constant,
    Formula,
    Leaf,
    Not,
    SchemaNode,
)
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.formulas.number_spellings import exact_text
from guided.regular.expression import Regular
from guided.regular.patterns.printing import format_expression

__all__ = ["MAX_LEVELS", "MAX_PATTERN", "dump"]

MAX_LEVELS: Final = 60
"""The depth to which nested formulas are printed; deeper ones are "…"."""
MAX_PATTERN: Final = 80
"""The number of characters printed of a pattern; those of formats have thousands."""
_INDENT: Final = "    "


def dump(grammar: JsonGrammar) -> str:
    """Return all nodes reachable from the root, each with its formula; lowers every one of them."""
    nodes = grammar.nodes()
    lines: list[str] = []
    if grammar.root not in nodes:
        lines += ["root", *_indent(_lines(grammar.root, MAX_LEVELS)), ""]
    for node in nodes:
        lines.append(f"#{node.index} {node.pointer or '(root)'}")
        lines += [*_indent(_lines(node.formula, MAX_LEVELS)), ""]
    return "\n".join(lines)


def _lines(formula: Formula, levels: int) -> list[str]:
    """Return the lines of a formula, nested at most ``levels`` deep; deeper ones are one "…".

    There is at least one line, which ``_with_heading`` relies on.
    """
    if levels == 0:
        return ["…"]
    match formula:
        case Constant(value):
            return ["anything" if value else "nothing"]
        case SchemaNode(index):
            return [f"#{index}"]
        case Not(item):
            return _with_heading("not", _lines(item, levels - 1))
        case AllOf(parts):
            return ["all of", *_parts(parts, levels)]
        case AnyOf(parts):
            return ["any of", *_parts(parts, levels)]
        case Leaf(assertion):
            return _assertion_lines(assertion, levels)


def _parts(parts: tuple[Formula, ...], levels: int) -> Iterator[str]:
    for part in parts:
        yield from _indent(_lines(part, levels - 1))


def _with_heading(head: str, lines: list[str]) -> list[str]:
    """Return a single line with its heading in front, several lines below their heading."""
    return [f"{head}: {lines[0]}"] if len(lines) == 1 else [head, *_indent(lines)]


def _indent(lines: list[str]) -> list[str]:
    return [_INDENT + line for line in lines]


def _assertion_lines(assertion: Assertion, levels: int) -> list[str]:
    """Return the lines of an assertion, with the formulas inside it nested ``levels`` deep."""
    named: list[tuple[str, Formula]]
    match assertion:
        case Members(by_name, patterns, rest):
            head = "members"
            named = [(_json_text(name), formula) for name, formula in by_name]
            named += [(f"/{_pattern(pattern)}/", formula) for pattern, formula in patterns]
            named.append(("others", rest))
        case Items(prefix, rest):
            head = "items"
            named = [(f"[{index}]", formula) for index, formula in enumerate(prefix)]
            named.append(("others", rest))
        case Contains(item, low, high):
            return _with_heading(f"{_range(low, high)} items are", _lines(item, levels - 1))
        case Names(name):
            return _with_heading("every name is", _lines(name, levels - 1))
        case _:
            return [_phrase(assertion)]
    inner = [line for key, f in named for line in _with_heading(key, _lines(f, levels - 1))]
    return [head, *_indent(inner)]


def _phrase(assertion: Assertion) -> str:
    """Return the one line of an assertion without formulas inside.

    A new assertion needs a case, here or in ``_assertion_lines``.
    """
    match assertion:
        case Types(types):
            return "is " + " or ".join(kind.value for kind in JsonType if kind in types)
        case Booleans(values):
            return "boolean: " + " or ".join(sorted(_json_text(value) for value in values))
        case Numbers():
            return "number: " + ", ".join(_number_parts(assertion))
        case NumberChoices(numbers):
            return "number: " + " or ".join(map(exact_text, numbers))
        case StringChoices(strings):
            return "string: " + " or ".join(map(_json_text, strings))
        case Matches(pattern):
            return f"string: found /{_pattern(pattern)}/"
        case Length(low, high):
            return f"string: {_range(low, high)} code points"
        case HasMember(name):
            return f"has {_json_text(name)}"
        case MemberCount(low, high):
            return f"{_range(low, high)} members"
        case ItemCount(low, high):
            return f"{_range(low, high)} items"
        case Unique():
            return "items differ"
        case _:
            raise AssertionError(f"{assertion!r} is no assertion")


def _number_parts(assertion: Numbers) -> Iterator[str]:
    """Yield the conditions on a number, one phrase each."""
    if assertion.integer:
        yield "whole by its spelling" if assertion.by_spelling else "whole"
    if assertion.low is not None:
        yield _bound(">", assertion.low)
    if assertion.high is not None:
        yield _bound("<", assertion.high)
    if assertion.multiple_of is not None:
        yield f"multiple of {exact_text(assertion.multiple_of)}"


def _bound(sign: str, bound: Bound) -> str:
    return f"{sign}{'' if bound.strict else '='} {exact_text(bound.value)}"


def _range(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"


def _json_text(value: str | bool) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pattern(regular: Regular) -> str:
    """Return an expression as text, cut off after MAX_PATTERN characters."""
    text = format_expression(regular)
    return text if len(text) <= MAX_PATTERN else text[:MAX_PATTERN] + "…"
