"""Lark grammars into context-free ones.

The language is the context-free one over the languages of the terminals. Priorities, aliases and
the signs ``?``, ``!`` and ``_`` say how Lark builds trees and which of several parses it takes;
they do not change which texts are valid. See docs/decisions/0008-grammars-as-networks.md for where
Lark's own scanners accept fewer texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.grammar.context_free import (
    Alternation,
    Body,
    Call,
    Concatenation,
    ContextFreeGrammar,
    Repetition,
    Special,
    Terminal,
)
from guided.grammar.lark.definitions import Definitions, definitions_of
from guided.grammar.lark.parser import parse_lark
from guided.grammar.lark.source import Definition, Source
from guided.grammar.lark.syntax import (
    Alternatives,
    Declare,
    Literal,
    Name,
    Range,
    Repeated,
    Series,
    SpecialName,
    Tree,
    Use,
)
from guided.grammar.lark.terminals import Terminals
from guided.runtime.fuel import spend

__all__ = ["MAX_RULES", "lower_lark"]

MAX_RULES: Final = 20_000
"""Rules, including those made for the uses of templates."""
_USE: Final = "#"
"""Stands between the name of a template and the number of its use, and in no name."""


def lower_lark(
    text: str,
    start: str = "start",
    imports: Mapping[str, str] | None = None,
    holes: Mapping[str, Body] | None = None,
) -> ContextFreeGrammar:
    """Return the grammar that ``text`` writes.

    ``imports`` are the texts of grammars that it may import, by dotted name; those that come with
    Lark (``common``, ``unicode``, …) need not be among them. ``holes`` are the bodies of terminals
    that it, or one that it imports, declares, by name; the caller has to define rules called in
    them. Raises InvalidConstraintError or UnsupportedFeatureError, with line, column and caret
    if a place can be named, or LimitExceededError.
    """
    imports, holes = imports or {}, holes or {}
    definitions = definitions_of(text, imports)
    _check_holes(holes, (text, *imports.values()))
    named = definitions.named
    first = named.get(start)
    if first is None or first.is_terminal or first.parameters or not first.bodies:
        names = sorted(each.name for each in named.values() if not each.is_terminal)
        others = f", or start with one of {', '.join(names[:10])}" if names else ""
        raise InvalidConstraintError(
            f"the grammar has no rule {start!r} to start with", hint=f"define it{others}"
        )
    rules = _Rules(named, _filled(definitions, holes))
    return ContextFreeGrammar(rules.lowered(first), start, rules.ignored(definitions))


def _check_holes(holes: Collection[str], texts: Iterable[str]) -> None:
    """Raise InvalidConstraintError if no grammar declares a terminal that is to be filled."""
    missing = set(holes)
    for text in texts:
        if not missing:
            return
        # What an imported grammar declares may be unused here, so all of them are searched.
        for statement in parse_lark(text):
            if isinstance(statement, Declare):
                missing.difference_update([name.text for name in statement.names])
    if missing:
        name = min(missing)
        raise InvalidConstraintError(
            f"the grammar declares no terminal {name!r} to be filled",
            hint=f"write %declare {name}, and use the name in its rules",
        )


def _filled(definitions: Definitions, holes: Mapping[str, Body]) -> dict[str, Body]:
    """Return the bodies of all terminals that are only declared, by full name.

    Raises UnsupportedFeatureError if one of them has no hole.
    """
    return {
        each.name: holes[_hole_of(each, holes)]
        for each in definitions.named.values()
        if not each.bodies
    }


def _hole_of(declared: Definition, holes: Collection[str]) -> str:
    """Return the name of the hole that a declared terminal is.

    The full name of an imported terminal has the names of grammars before it, joined by ``__``. So
    its endings are tried, the longest first. Raises UnsupportedFeatureError if none is a hole's,
    and for a declared rule.
    """
    parts = declared.name.split("__")
    for at in range(len(parts)):
        name = "__".join(parts[at:])
        if declared.is_terminal and name in holes:
            return name
    raise declared.source.error(
        declared.position,
        f"{declared.name!r} is declared and has no text, as for a post-lexer",
        UnsupportedFeatureError,
        "define what it stands for, or give the constraint that fills it as a terminal",
    )


class _Rules:
    """Lowers the rules that a start leads to, each when it is first called.

    A template is lowered once for each list of arguments that it is used with, as a separate rule
    (``name#3``). Its parameters are replaced: in all methods ``given`` is the body of each
    parameter by its full name. An argument that is itself a template is passed as the ``Call`` of
    its name; only ``_rule`` looks at such a call, which never becomes part of a body.
    """

    def __init__(self, named: Mapping[str, Definition], holes: Mapping[str, Body]) -> None:
        self._named = named
        """All definitions by full name."""
        self._holes = holes
        """The bodies of terminals that are only declared, by full name."""
        self._terminals = Terminals()
        self._bodies: dict[str, Body] = {}
        """What was lowered, by name of the rule."""
        self._waiting: list[tuple[str, Definition, tuple[Body, ...]]] = []
        """Rules that were called and have not been lowered yet: name, definition, arguments."""
        self._used: dict[tuple[str, tuple[Body, ...]], str] = {}
        """The name of each rule that was called, by name of the definition and arguments."""

    def lowered(self, start: Definition) -> Mapping[str, Body]:
        """Return all rules that the start leads to, with templates written out for their uses."""
        self._call(start, ())
        while self._waiting:
            name, definition, arguments = self._waiting.pop()
            given = dict(zip(definition.parameters, arguments, strict=True))
            options = [self._body(*body, given) for body in definition.bodies]
            self._bodies[name] = options[0] if len(options) == 1 else Alternation(tuple(options))
        return self._bodies

    def ignored(self, definitions: Definitions) -> tuple[Terminal, ...]:
        """Return the terminals of the ``%ignore`` statements: what may stand before each terminal.

        Raises UnsupportedFeatureError for a hole, and for a terminal that is only declared.
        """
        source, found = definitions.source, list[Terminal]()
        for each in definitions.ignored:
            if isinstance(each.body, Name) and each.body.text in self._holes:
                raise source.error(
                    each.body.position,
                    f"{each.body.text!r}, which a constraint fills, cannot be ignored",
                    UnsupportedFeatureError,
                    "use it in a rule",
                )
            found += self._terminals.of_body(each.body, source, each.position)
        return tuple(found)

    def _call(self, rule: Definition, arguments: tuple[Body, ...]) -> Call:
        """Return the call of a rule, or of a template with its arguments.

        At the first call the rule is queued for lowering. Raises LimitExceededError past
        MAX_RULES: a template that uses itself with ever more arguments would never end.
        """
        key = (rule.name, arguments)
        name = self._used.get(key)
        if name is None:
            if len(self._used) >= MAX_RULES:
                raise LimitExceededError(
                    f"the grammar has more than {MAX_RULES} rules, uses of templates counted,"
                    f" at {rule.name!r}",
                    limit=MAX_RULES,
                    field="constraint",
                    hint="look for a template that uses itself with ever more",
                )
            name = f"{rule.name}{_USE}{len(self._used)}" if arguments else rule.name
            self._used[key] = name
            self._waiting.append((name, rule, arguments))
        return Call(name)

    def _body(self, tree: Tree, source: Source, given: Mapping[str, Body]) -> Body:
        """Return the body of a part of a rule; ``source`` is the grammar whose names it uses.

        Recursive, as deep as the parser lets brackets nest. Rules that it calls are only queued.
        """
        spend(5)
        match tree:
            case Alternatives(options):
                return Alternation(tuple([self._body(each, source, given) for each in options]))
            case Series(parts):
                return Concatenation(tuple([self._body(each, source, given) for each in parts]))
            case Repeated(item, low, high):
                return Repetition(self._body(item, source, given), low, high)
            case Literal() | Range():
                return _choice(self._terminals.of_literal(tree, source))
            case SpecialName(text):
                return Special(text)
            case Name():
                return self._named_body(tree, source, given)
            case Use(template, arguments):
                bodies = tuple([self._argument(each, source, given) for each in arguments])
                return self._call(self._rule(template, source, given, len(bodies)), bodies)

    def _named_body(self, name: Name, source: Source, given: Mapping[str, Body]) -> Body:
        """Return what a name without arguments stands for: a terminal, a parameter, or a rule.

        A parameter for which a template was given is called without arguments here, which ``_rule``
        refuses. Names are known to be defined, see ``definitions._check_names``.
        """
        full = source.full_name(name.text)
        if name.is_terminal:
            hole = self._holes.get(full)
            return _choice(self._terminals.of(self._named[full])) if hole is None else hole
        body = given.get(full)
        if body is None or self._is_template(body):
            return self._call(self._rule(name, source, given, 0), ())
        return body

    def _argument(self, tree: Tree, source: Source, given: Mapping[str, Body]) -> Body:
        """Return an argument's body; for a template the ``Call`` of its name, see the class."""
        if isinstance(tree, Name) and not tree.is_terminal:
            full = source.full_name(tree.text)
            body = given.get(full, Call(full))
            if self._is_template(body):
                return body
        return self._body(tree, source, given)

    def _is_template(self, body: Body) -> bool:
        """Return whether a body is what ``_argument`` passes for a template.

        Calls of rules that were lowered from templates have other names, with a ``#``.
        """
        if not isinstance(body, Call):
            return False
        rule = self._named.get(body.rule)
        return rule is not None and bool(rule.parameters)

    def _rule(
        self, name: Name, source: Source, given: Mapping[str, Body], count: int
    ) -> Definition:
        """Return the rule of a name that is used with ``count`` arguments, 0 for a name alone.

        The name may be a parameter for which a template was given. Raises InvalidConstraintError
        if the rule takes a different number of arguments, or if a parameter that is no
        template gets arguments.
        """
        full = source.full_name(name.text)
        body = given.get(full)
        rule = self._named.get(body.rule if isinstance(body, Call) else full)
        takes = 0 if rule is None else len(rule.parameters)
        if rule is None or takes != count:
            what = f"the template {name.text!r} takes {takes} arguments, is given {count}"
            raise source.error(name.position, what)
        return rule


def _choice(terminals: tuple[Terminal, ...]) -> Body:
    """Return a single terminal as itself; several, from a split at the edges, as a choice."""
    return terminals[0] if len(terminals) == 1 else Alternation(terminals)
