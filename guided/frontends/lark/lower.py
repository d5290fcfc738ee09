"""Lark grammars into context-free ones.

The language is the context-free one over the languages of the terminals. Priorities, aliases and
the marks ``?``, ``!`` and ``_`` say how Lark builds trees and which of several readings it takes;
they do not change which texts there are. See docs/decisions/0008-grammars-as-networks.md for where
Lark's own scanners accept fewer texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lark.grammar import NonTerminal
from lark.grammar import Terminal as LarkTerminal

from guided.automata.fuel import spend
from guided.errors import InvalidConstraintError, LimitExceededError
from guided.frontends.lark.load import load_definitions
from guided.frontends.lark.repeats import repeat_bounds
from guided.frontends.lark.terminals import Terminals
from guided.frontends.place import Place
from guided.grammar.context_free import (
    Body,
    Call,
    Choice,
    ContextFreeGrammar,
    Sequence,
    Terminal,
    Times,
)

__all__ = ["MAX_RULES", "lower_lark", "template_of"]

MAX_RULES: Final = 20_000
"""Rules, those counted that templates are used as."""
_USE = "#"
"""Parts the name of a template from the number of its use."""


def lower_lark(
    text: str,
    start: str = "start",
    imports: Mapping[str, str] | None = None,
    holes: Mapping[str, Body] | None = None,
) -> ContextFreeGrammar:
    """The grammar that ``text`` writes.

    ``imports`` are the texts of grammars that it may import, by dotted name; those that come with
    Lark (``common``, ``unicode``, …) need not be among them. ``holes`` are the bodies of terminals
    that it declares. Raises InvalidConstraintError or
    UnsupportedFeatureError, with line, column and caret, or LimitExceededError.
    """
    holes = holes or {}
    definitions = load_definitions(text, imports or {}, holes)
    if start not in definitions.rules or definitions.rules[start][0]:
        raise InvalidConstraintError(
            f"the grammar has no rule {start!r} to start with",
            hint=f"define it, or start with one of {', '.join(sorted(definitions.rules)[:10])}",
        )
    filled = {name: holes[hole] for name, hole in definitions.filled.items()}
    rules = _Rules(text, definitions.rules, Terminals(text, definitions.terminals), filled)
    lowered = rules.lowered(start)
    ignored = [each for name in definitions.ignored for each in rules.terminals.named(name)]
    return ContextFreeGrammar(lowered, start, tuple(ignored))


def template_of(rule: str) -> str:
    """The template that a lowered rule is a use of, or its own name in the grammar."""
    return rule.partition(_USE)[0]


class _Rules:
    def __init__(
        self,
        text: str,
        rules: Mapping[str, tuple[tuple[str, ...], Any]],
        terminals: Terminals,
        holes: Mapping[str, Body],
    ) -> None:
        self.terminals = terminals
        self._text = text
        self._rules = rules
        self._holes = holes
        self._bodies: dict[str, Body] = {}
        self._waiting: list[tuple[str, str, tuple[Body, ...]]] = []
        self._used: dict[tuple[str, tuple[Body, ...]], str] = {}

    def lowered(self, start: str) -> Mapping[str, Body]:
        """All rules that the start leads to, templates written out for what they are used with."""
        self._call(start, ())
        while self._waiting:
            number, name, arguments = self._waiting.pop()
            parameters, tree = self._rules[name]
            self._bodies[number] = self._body(tree, dict(zip(parameters, arguments, strict=True)))
        return self._bodies

    def _call(self, name: str, arguments: tuple[Body, ...]) -> Call:
        key = (name, arguments)
        number = self._used.get(key)
        if number is None:
            if len(self._used) >= MAX_RULES:
                raise LimitExceededError(
                    f"the grammar has more than {MAX_RULES} rules, uses of templates counted,"
                    f" at {name!r}",
                    limit=MAX_RULES,
                    field="constraint",
                    hint="look for a template that uses itself with ever more",
                )
            used = f"{name}{_USE}{len(self._used)}" if arguments else name
            number = self._used[key] = used
            self._waiting.append((number, name, arguments))
        return Call(number)

    def _body(self, tree: Any, given: Mapping[str, Body]) -> Body:
        spend(5)
        match tree.data:
            case "expansions":
                options = [self._body(child, given) for child in tree.children]
                return options[0] if len(options) == 1 else Choice(tuple(options))
            case "alias":
                return self._body(tree.children[0], given)
            case "expansion":
                parts = [self._body(child, given) for child in tree.children]
                return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
            case "expr":
                low, high = repeat_bounds(self._text, tree.children[1:])
                return Times(self._body(tree.children[0], given), low, high)
            case "maybe":
                return Times(self._body(tree.children[0], given), 0, 1)
            case "value":
                return self._value(tree.children[0], given)
        raise AssertionError(f"{tree.data} in a rule")

    def _value(self, value: Any, given: Mapping[str, Body]) -> Body:
        if isinstance(value, LarkTerminal):
            hole = self._holes.get(value.name)
            return _choice(self.terminals.named(value.name)) if hole is None else hole
        if isinstance(value, NonTerminal):
            if value.name in given:
                return given[value.name]
            self._check_arguments(value.name, 0)
            return self._call(value.name, ())
        if value.data == "template_usage":
            template, *arguments = value.children
            bodies = tuple(self._value(argument.children[0], given) for argument in arguments)
            self._check_arguments(template.name, len(bodies))
            return self._call(template.name, bodies)
        return _choice(self.terminals.written(value))

    def _check_arguments(self, name: str, count: int) -> None:
        parameters, _ = self._rules[name]
        if len(parameters) != count:
            place = Place.of_name(self._text, name)
            raise InvalidConstraintError(
                place.message(f"the template {name!r} takes {len(parameters)}, is given {count}"),
                position=place.position,
            )


def _choice(terminals: tuple[Terminal, ...]) -> Body:
    return terminals[0] if len(terminals) == 1 else Choice(terminals)
